// Gateways forward the headers of their clients with the check itself, and let a request pass on any answer other than
// 200. So no header section, however broken or long, gives a check an error: it gets a refused decision, and over
// HTTP/1.1 its connection ends, because nobody knows where the next request would begin. Other routes answer with errors.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { after, describe, type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import type { Clock } from "#base/clock.ts";
import { agentOf, endpointsOf } from "../kit/api/agent.ts";
import { offered } from "../kit/attack/server-end.ts";
import { data, END_STREAM, frame, headerFrames, httpFields, rawPeer } from "../kit/clients/h2.ts";
import { block, type Field } from "../kit/clients/hpack.ts";
import { fakeClock } from "../kit/clock.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { memoryMeter, type Overrides, readAll, realClock, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const CHECK_HTTP = "/v1/flowcontrol/checkhttp";
const CHECK = "/v1/flowcontrol/check";
const FLOW_END = "/v1/flowcontrol/flowend";
const BODY = JSON.stringify({ control_point: "here", request: { method: "GET", path: "/" } });
const MIB = 1024 * 1024;

const folder = temporaryFolder({ after });
const ca = authority(folder, "ca");
const { certFile, keyFile } = ca.issue("server");

type Transport = "cleartext" | "TLS";

/** A port of an agent without policies: whatever is judged is accepted. */
async function agentPort(t: TestContext, over: Overrides = {}, clock: Clock = realClock) {
  const agent = agentOf([]);
  const { routes, services } = endpointsOf(agent.flowController);
  const { meter, http, faults } = memoryMeter();
  const port = await testPort(t, { routes, services, meter, clock, settings: over });
  return { agent, port, counted: http, faults };
}

function settingsFor(transport: Transport, http: Overrides["http"] = {}): Overrides {
  return transport === "TLS"
    ? { http, tls: { enabled: true, cert_file: certFile, key_file: keyFile } }
    : { http };
}

interface Decision {
  readonly status: number;
  readonly denied: number | undefined;
  readonly type: string;
}

function decisionOf(status: number, body: string): Decision {
  const reply = status === 200 ? JSON.parse(body) : {};
  const type = reply.check_response?.decision_type ?? reply.decision_type ?? "";
  const named: Record<string, number> = { BadRequest: 400, RequestHeaderFieldsTooLarge: 431 };
  return {
    status,
    denied: reply.denied_response?.status ?? named[reply.denied_response_status_code],
    type,
  };
}

const refused = (denied: number): Decision => ({
  status: 200,
  denied,
  type: "DECISION_TYPE_REJECTED",
});
const failed = (status: number): Decision => ({ status, denied: undefined, type: "" });

describe("HTTP/1.1", () => {
  function dialed(t: TestContext, port: number, transport: Transport): Socket {
    const socket =
      transport === "TLS"
        ? connectTls({ port, host: "127.0.0.1", ca: ca.cert, ALPNProtocols: ["http/1.1"] })
        : connect(port, "127.0.0.1");
    t.after(() => socket.destroy());
    return socket;
  }

  /**
   * Sends each round after the reply to the one before, its parts so that they are read one by one, and reads until the
   * server has closed the connection.
   */
  async function replies(
    t: TestContext,
    port: number,
    rounds: readonly (string | readonly string[])[],
    transport: Transport = "cleartext",
  ): Promise<readonly Decision[]> {
    const socket = dialed(t, port, transport).setNoDelay();
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      text += chunk;
    });
    const closed = readAll(socket);
    for (const [before, round] of rounds.entries()) {
      await until("the reply before", () => text.split("HTTP/1.1 ").length > before);
      for (const [at, part] of [round].flat().entries()) {
        if (at > 0) await offered(socket);
        if (socket.writable) socket.write(part, "latin1");
      }
    }
    await closed;
    const found = text.split(/(?=HTTP\/1\.1 \d{3} )/).filter((reply) => reply !== "");
    return found.map((reply, at) => {
      const [head = "", body = ""] = reply.split(/\r\n\r\n(.*)/s);
      if (at === found.length - 1) assert.match(head, /\r\nconnection: close(\r\n|$)/i);
      return decisionOf(Number(reply.slice(9, 12)), body);
    });
  }

  const head = (path: string, more: string) => `POST ${path} HTTP/1.1\r\nhost: x\r\n${more}`;
  const posted = (path: string, more: string) =>
    `${head(path, more)}content-length: ${BODY.length}\r\n\r\n${BODY}`;
  const many = (count: number) => Array.from({ length: count }, (_, at) => `a${at}:\r\n`).join("");

  const BROKEN: readonly (readonly [what: string, more: string, status: 400 | 431])[] = [
    ["a control character in a value", "cookie: a\x01b\r\n", 400],
    ["DEL in a value", "cookie: a\x7fb\r\n", 400],
    ["NUL in a value", "cookie: a\x00b\r\n", 400],
    ["a lone CR", "cookie: a\rb\r\n", 400],
    ["a lone LF", "cookie: a\nb: c\r\n", 400],
    ["a folded line", "cookie: a\r\n b\r\n", 400],
    ["a blank in a name", "coo kie: a\r\n", 400],
    ["a control character in a name", "coo\x01kie: a\r\n", 400],
    ["a line without a colon", "cookie\r\n", 400],
    ["the length of another body", "content-length: 1\r\n", 400],
    ["a length that is no number", "content-length: 1x\r\n", 400],
    ["the framing of another body", "transfer-encoding: chunked\r\n", 400],
    ["an unknown framing", "transfer-encoding: chunked, gzip\r\n", 400],
    ["a second host", "host: evil.example\r\n", 400],
    ["headers beyond max_header_bytes", `cookie: ${"c".repeat(MIB)}\r\n`, 431],
    ["more headers than max_headers", many(1_001), 431],
    ["more headers than Node's parser takes", many(10_001), 431],
    ["a flood of headers", many(60_000), 431],
  ];

  for (const transport of ["cleartext", "TLS"] as const) {
    test(`a header section that cannot be used is a refused decision: ${transport}`, async (t) => {
      const { port, agent, counted } = await agentPort(t, settingsFor(transport));
      for (const [what, more, status] of BROKEN) {
        for (const path of [CHECK_HTTP, CHECK]) {
          const before = agent.observer.verdicts.length;
          const text = posted(path, more);
          const found = await replies(t, port.port, [text], transport);
          assert.deepEqual(found, [refused(status)], `${what}: ${path}`);
          await until("the request is counted", () => counted.at(-1)?.route === path);
          assert.deepEqual(
            agent.observer.verdicts.slice(before).map(({ accepted }) => accepted),
            [false],
          );
        }
        // A peer that is still sending may lose this reply.
        const found = await replies(t, port.port, [posted(FLOW_END, more)], transport);
        if (found.length > 0) assert.deepEqual(found, [failed(status)], what);
      }
      assert.ok(agent.observer.anomalies.every((name) => name === "request_refused"));
    });
  }

  test("a second host ends the connection, also of a request without a body", async (t) => {
    const { port } = await agentPort(t);
    const empty = `${head(CHECK_HTTP, "host: evil.example\r\n")}\r\n`;
    assert.deepEqual(await replies(t, port.port, [empty]), [refused(400)]);
  });

  test("however the header section is cut into reads", async (t) => {
    const { port } = await agentPort(t, { http: { max_header_bytes: 4_096 } });
    const broken = posted(CHECK_HTTP, "cookie: a\x01b\r\n");
    const cuts: readonly (readonly string[])[] = [
      [broken.slice(0, 1), broken.slice(1)],
      [broken.slice(0, 20), broken.slice(20)],
      [broken.slice(0, 60), broken.slice(60, 64), broken.slice(64)],
      [...broken.slice(0, 80), broken.slice(80)],
      ["\r\n", broken],
    ];
    for (const parts of cuts)
      assert.deepEqual(await replies(t, port.port, [parts]), [refused(400)]);
    const pad = `x: ${"y".repeat(500)}\r\n`;
    const long = [head(CHECK_HTTP, ""), ...Array<string>(12).fill(pad)];
    assert.deepEqual(await replies(t, port.port, [long]), [refused(431)]);
  });

  test("on a connection that has answered other requests", async (t) => {
    const { port } = await agentPort(t);
    const good = posted(CHECK_HTTP, "");
    const chunked = `${head(CHECK_HTTP, "transfer-encoding: chunked\r\n")}\r\n`;
    const body = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
    const broken = posted(CHECK_HTTP, "cookie: a\x01b\r\n");
    const accepted: Decision = { status: 200, denied: undefined, type: "DECISION_TYPE_ACCEPTED" };
    const before: readonly (readonly (string | readonly string[])[])[] = [
      [good],
      [[good.slice(0, -20), good.slice(-20)]],
      [chunked + body],
      [[chunked, body]],
      [[chunked, body], good, [good.slice(0, 30), good.slice(30)]],
    ];
    for (const rounds of before) {
      for (const last of [broken, [broken.slice(0, 40), broken.slice(40)]]) {
        const found = await replies(t, port.port, [...rounds, last]);
        assert.deepEqual(found, [...rounds.map(() => accepted), refused(400)]);
      }
    }
    for (const pipelined of [good, chunked + body])
      assert.deepEqual(await replies(t, port.port, [pipelined + broken]), [accepted, refused(400)]);
    // The request line of an earlier check says nothing about a later request.
    for (const other of [posted(FLOW_END, "cookie: a\x01b\r\n"), "\x01\x02\r\n"]) {
      for (const rounds of [[chunked + body, other], [good, other], [good + other]])
        assert.deepEqual(await replies(t, port.port, rounds), [accepted, failed(400)]);
    }
  });

  test("nothing that follows is taken for a request", async (t) => {
    const { port, agent } = await agentPort(t);
    const smuggled = posted(CHECK_HTTP, "");
    for (const more of [
      "cookie: a\x01b\r\n",
      "content-length: 1\r\n",
      "transfer-encoding: x\r\n",
    ]) {
      const before = agent.observer.verdicts.length;
      const behind = posted(CHECK_HTTP, more) + smuggled;
      const found = await replies(t, port.port, [[behind, smuggled]]);
      assert.deepEqual(found, [refused(400)], more);
      assert.equal(agent.observer.verdicts.length, before + 1);
    }
  });

  test("a request line alone, or a header section that never ends, does not wait for ever", async (t) => {
    const { port, agent } = await agentPort(t, { http: { read_header_timeout: 50 } });
    for (const text of [`POST ${CHECK_HTTP} HT`, head(CHECK_HTTP, "cookie: a")])
      assert.deepEqual(await replies(t, port.port, [text]), [failed(408)], text);
    assert.equal(agent.observer.verdicts.length, 0);
  });

  test("a body shorter than the length that was forwarded is a refused decision", async (t) => {
    const { port } = await agentPort(t, { http: { read_timeout: 50 } });
    const longer = (path: string) => `${head(path, "content-length: 5000\r\n")}\r\n${BODY}`;
    assert.deepEqual(await replies(t, port.port, [longer(CHECK_HTTP)]), [refused(408)]);
    assert.deepEqual(await replies(t, port.port, [longer(FLOW_END)]), [failed(408)]);
  });

  test("the peer reads the reply although it is still sending", async (t) => {
    // The time for which a connection stays open for such a peer is not what is tested.
    const { port } = await agentPort(t, {}, fakeClock());
    // Far more than the buffers of a socket hold, from a client that reads only once it has sent everything.
    const flood = `${head(CHECK_HTTP, "cookie: a\x01b\r\n")}x: ${"y".repeat(16 * MIB)}`;
    const socket = dialed(t, port.port, "cleartext");
    await new Promise((resolve) => socket.write(flood, resolve));
    assert.match(await readAll(socket), /^HTTP\/1\.1 200 .*\r\n\r\n\{.*"status":400/s);
  });
});

describe("HTTP/2", () => {
  const BROKEN: readonly (readonly [what: string, fields: readonly Field[], status: 400 | 431])[] =
    [
      ["NUL in a value", [["cookie", "a\x00b"]], 400],
      ["CR in a value", [["cookie", "a\rb"]], 400],
      ["LF in a value", [["cookie", "a\nb"]], 400],
      ["a blank before a value", [["cookie", " a"]], 400],
      ["a control character in a name", [["coo\x01kie", "a"]], 400],
      ["upper case in a name", [["Cookie", "a"]], 400],
      ["a field of HTTP/1.1", [["connection", "keep-alive"]], 400],
      ["the framing of another body", [["transfer-encoding", "chunked"]], 400],
      ["an upgrade", [["upgrade", "websocket"]], 400],
      ["trailers that are not understood", [["te", "gzip"]], 400],
      ["another host", [["host", "evil.example"]], 400],
      ["a length that is no number", [["content-length", "x"]], 400],
      ["the length of a shorter body", [["content-length", "1"]], 400],
      ["the length of a longer body", [["content-length", "5000"]], 400],
      ["headers beyond max_header_bytes", [["cookie", "c".repeat(70 * 1_024)]], 431],
      ["far more than that", [["cookie", "c".repeat(300 * 1_024)]], 431],
      ["more headers than max_headers", Array<Field>(1_001).fill(["a", ""]), 431],
      ["a flood of headers", Array<Field>(20_000).fill(["abcdefghijklmnop", ""]), 431],
    ];

  /** The decision about one request; `failed(0)`: the stream was reset, or the connection ended. */
  async function decision(
    t: TestContext,
    port: string,
    fields: readonly Field[],
    transport: Transport,
  ): Promise<Decision> {
    const peer = await rawPeer(
      t,
      port,
      transport === "TLS" ? { tls: { ca: ca.cert, ALPNProtocols: ["h2"] } } : {},
    );
    const stream = peer.nextStream();
    const bytes = Buffer.from(BODY);
    await peer.send(headerFrames(stream, block(fields), 0), data(stream, bytes, END_STREAM));
    const { head, body } = await peer.outcome(stream);
    return decisionOf(Number(head[":status"] ?? 0), body.toString());
  }

  for (const transport of ["cleartext", "TLS"] as const) {
    test(`a header section that cannot be used is a refused decision: ${transport}`, async (t) => {
      const { port, agent, faults } = await agentPort(t, settingsFor(transport));
      for (const [what, more, status] of BROKEN) {
        for (const path of [CHECK_HTTP, CHECK]) {
          const before = agent.observer.verdicts.length;
          const found = await decision(
            t,
            port.address,
            httpFields("POST", path, ...more),
            transport,
          );
          assert.deepEqual(found, refused(status), `${what}: ${path}`);
          assert.equal(agent.observer.verdicts.length, before + 1);
          assert.ok(faults.length > 0, "it counts as a fault of its peer all the same");
          faults.length = 0;
        }
        const found = await decision(
          t,
          port.address,
          httpFields("POST", FLOW_END, ...more),
          transport,
        );
        assert.ok([0, 431].includes(found.status), what);
      }
    });
  }

  test("an authority that is none, and a content type of gRPC", async (t) => {
    const { port } = await agentPort(t);
    const fields = (over: Record<string, string>): readonly Field[] =>
      httpFields("POST", CHECK_HTTP).map(([name, value]) => [name, over[name] ?? value]);
    const bad = await decision(t, port.address, fields({ ":authority": "a@b c" }), "cleartext");
    assert.deepEqual(bad, refused(400));
    const typed: readonly Field[] = [...fields({}), ["content-type", "application/grpc"]];
    const judged = await decision(t, port.address, typed, "cleartext");
    assert.equal(judged.type, "DECISION_TYPE_ACCEPTED");
  });

  test("a malformed method or path is no check", async (t) => {
    const { port, agent } = await agentPort(t);
    const heads: readonly (readonly Field[])[] = [
      httpFields("POST", CHECK_HTTP, [":path", CHECK_HTTP]),
      httpFields("POST", CHECK_HTTP).filter(([name]) => name !== ":method"),
      httpFields("GET", CHECK_HTTP, ["connection", "close"]),
      httpFields("POST", `${CHECK_HTTP}\x00`),
    ];
    for (const fields of heads)
      assert.deepEqual(await decision(t, port.address, fields, "cleartext"), failed(0));
    assert.equal(agent.observer.verdicts.length, 0);
  });

  test("a connection stays usable after a malformed request", async (t) => {
    const { port, faults } = await agentPort(t);
    const peer = await rawPeer(t, port.address);
    const malformed = block(httpFields("POST", CHECK_HTTP, ["te", "gzip"]));
    const first = peer.nextStream();
    await peer.send(headerFrames(first, malformed));
    assert.equal((await peer.outcome(first)).head[":status"], "200");
    const good = peer.nextStream();
    await peer.send(
      headerFrames(good, block(httpFields("POST", CHECK_HTTP)), 0),
      data(good, Buffer.from(BODY), END_STREAM),
    );
    const { body } = await peer.outcome(good);
    assert.equal(decisionOf(200, body.toString()).type, "DECISION_TYPE_ACCEPTED");
    assert.deepEqual(faults, ["malformed_request"]);
  });

  test("a block that is too large ends the connection after its reply", async (t) => {
    const { port } = await agentPort(t);
    const peer = await rawPeer(t, port.address);
    const fields = httpFields("POST", CHECK_HTTP, ["cookie", "c".repeat(300 * 1_024)]);
    const stream = peer.nextStream();
    const late = peer.nextStream();
    await peer.send(headerFrames(stream, block(fields)), frame(6, 0, 0, Buffer.alloc(8)));
    assert.equal((await peer.outcome(stream)).head[":status"], "200");
    assert.equal(await peer.goaway(), "ENHANCE_YOUR_CALM");
    assert.ok(late > stream);
    await peer.closed;
  });
});
