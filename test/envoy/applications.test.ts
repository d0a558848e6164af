// What applications do behind a shipped Envoy: the bootstrap of deploy/envoy, and what an injected pod starts. The table of
// docs/applications.md has a row for each of these tests.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { describe, it, type TestContext, test } from "node:test";
import { grpcEcho } from "../../deploy/tools/go-tools.ts";
import { drainingEnvoy, type EnvoyTraffic } from "../../src/injector/mutation/envoy.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { type Client, http1 } from "../kit/clients/http.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { child } from "../kit/servers/child.ts";
import { type Envoy, startEnvoy } from "../kit/servers/envoy.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { startApplication, startGrpcApplication } from "./application.ts";
import { POLICIES } from "./policies.ts";

const UPLOAD_BYTES = 100 * 2 ** 20;

type Bootstrap = "sidecar.yaml" | "injected";

async function before(
  t: TestContext,
  bootstrap: Bootstrap,
  service: number,
  traffic: Partial<EnvoyTraffic> = {},
): Promise<Envoy> {
  const { address: agent } = await standalone(t, { policies: POLICIES });
  return startEnvoy(t, {
    bootstrap,
    agent,
    service,
    traffic,
    // A machine that is busy with other tests must not look like an unreachable agent.
    edit: (of) => of.set([...AT.extAuthz, "grpc_service", "timeout"], "5s"),
  });
}

/** So that an answer which never comes ends the test. */
const TIMEOUT_MS = 120_000;
const BOOTSTRAPS = ["sidecar.yaml", "injected"] as const;

// Side by side, because each of them waits for slow answers.
describe("applications behind the Envoys", { concurrency: true, timeout: TIMEOUT_MS }, () => {
  for (const bootstrap of BOOTSTRAPS) {
    it(`${bootstrap}: an application that speaks HTTP/1.1`, async (t) => {
      const application = await startApplication(t);
      const envoy = await before(t, bootstrap, application.port);
      const ask = http1(t, envoy.url);

      await t.test("everything at once", { concurrency: true }, async (t) => {
        await Promise.all([
          t.test("an answer that takes 17 s", async () => {
            const read = answerTo(ask, "/slow");
            assert.deepEqual(await answerTo(ask, "/slow", "POST"), [200, "at last"]);
            assert.deepEqual(await read, [200, "at last"]);
          }),
          t.test("events with 17 s between them", async () => {
            const events = "data: first\n\ndata: last\n\n";
            assert.deepEqual(await answerTo(ask, "/events"), [200, events]);
          }),
          t.test("a WebSocket that is silent for as long as that takes", async (t) => {
            const socket = await upgraded(t, envoy.port, "/chat");
            assert.match(await received(socket, "\r\n\r\n"), /^HTTP\/1\.1 101 /);
            socket.write("hello");
            assert.equal(await received(socket, "hello"), "hello");
            await ask({ path: "/slow" });
            socket.write("again");
            assert.equal(await received(socket, "again"), "again");
          }),
          t.test("a body with 17 s between its parts", async () => {
            const outgoing = request(`${envoy.url}/count`, { method: "POST", agent: new Agent() });
            const reply = once(outgoing, "response");
            outgoing.write("one");
            await ask({ path: "/slow" });
            outgoing.end("two");
            const [response] = await reply;
            assert.equal(Buffer.concat(await response.toArray()).toString(), "6");
          }),
          t.test("half a request head, which does not keep its connection", async (t) => {
            const socket = await connected(t, envoy.port);
            const slow = ask({ path: "/slow" });
            socket.write("GET /half HTTP/1.1\r\nhost: ");
            const ended = await Promise.race([rest(socket), slow.then(() => "still open")]);
            assert.match(ended, /^HTTP\/1\.1 408 /);
            assert.ok(!application.paths.includes("/half"));
          }),
        ]);
      });

      await t.test("an upgrade is checked as any request", async (t) => {
        const socket = await upgraded(t, envoy.port, "/shut");
        assert.match(await received(socket, "\r\n\r\n"), /^HTTP\/1\.1 403 /);
        assert.ok(!application.paths.includes("/shut"));
      });

      await t.test(
        "an upload of 100 MB, whose beginning arrives before its end is sent",
        async () => {
          const agent = new Agent();
          const outgoing = request(`${envoy.url}/upload`, { method: "POST", agent });
          const reply = once(outgoing, "response");
          const part = Buffer.alloc(2 ** 20);
          outgoing.write(part);
          await application.uploading;
          for (let sent = part.length; sent < UPLOAD_BYTES; sent += part.length)
            if (!outgoing.write(part)) await once(outgoing, "drain");
          outgoing.end();
          const [response] = await reply;
          const chunks = await response.toArray();
          assert.equal(Buffer.concat(chunks).toString(), String(UPLOAD_BYTES));
        },
      );

      await t.test("more requests at once than Envoy's own bounds, 1 024, allow", async () => {
        const agent = new Agent();
        for (let open = 0; open < 1_100; open += 100) {
          const begun = Array.from({ length: 100 }, async () => {
            const [response] = await once(
              request(`${envoy.url}/open`, { agent }).end(),
              "response",
            );
            return response.statusCode;
          });
          assert.deepEqual(new Set(await Promise.all(begun)), new Set([200]));
        }
        agent.destroy();
      });

      await t.test("HTTP/1.0, with and without a host", async (t) => {
        for (const host of ["", "host: shop\r\n"]) {
          const socket = await connected(t, envoy.port);
          socket.write(`GET /old HTTP/1.0\r\n${host}\r\n`);
          assert.match(await rest(socket), /^HTTP\/1\.[01] 200 OK\r\n.*\r\n\r\n\{"url":"\/old"/s);
        }
      });

      await t.test("HTTP/1.1 stays HTTP/1.1", async () => {
        const { body } = await ask({ path: "/version" });
        assert.deepEqual(JSON.parse(body), { url: "/version", httpVersion: "1.1" });
      });

      await t.test(
        "a connection that the application ends while a request is on its way",
        async () => {
          const leave = async (method: string) => (await ask({ path: "/leave", method })).status;
          // A fresh connection, then one that was used.
          await until("all connections have ended", () => application.connections === 0);
          assert.deepEqual([await leave("GET"), await leave("GET")], [200, 200]);
          const before = application.paths.length;
          // The application may have begun to work on it: Envoy leaves it to the client.
          assert.equal(await leave("POST"), 503);
          assert.equal(application.paths.length, before + 1);
        },
      );

      await t.test(
        "an application that fails with many requests gets few of them again",
        async (t) => {
          const agent = new Agent({ keepAlive: true });
          t.after(() => agent.destroy());
          const sent = 300;
          const arrived = () => application.paths.filter((path) => path === "/hang").length;
          const statuses: (number | undefined)[] = [];
          for (let each = 0; each < sent; each += 1)
            request(`${envoy.url}/hang`, { agent })
              .once("response", (response) => statuses.push(response.resume().statusCode))
              .end();
          await until("all have arrived", () => arrived() === sent);
          application.crash();
          await until("each has failed or arrived again", () => {
            return statuses.length + arrived() === 2 * sent;
          });
          const again = arrived() - sent;
          // The budget is a fifth of the requests in flight.
          assert.ok(again > 0 && again <= sent / 5, `${again} have arrived again`);
          await until("all have failed", () => {
            application.crash();
            return statuses.length === sent;
          });
          assert.deepEqual(new Set(statuses), new Set([503]));
          assert.equal(arrived(), sent + again);
        },
      );

      await t.test("connections end before the application would end them", async () => {
        assert.equal((await ask()).status, 200);
        await until("all connections have ended", () => application.connections === 0);
      });
    });

    it(`${bootstrap}: an application that speaks gRPC`, async (t) => {
      const envoy = await before(t, bootstrap, await startGrpcApplication(t));
      const client = grpcClient(t, `127.0.0.1:${envoy.port}`);
      const message = Buffer.from("message");

      await t.test("a call, with its trailers", async () => {
        const { code, message: answer, trailers } = await client.unary("/echo.Echo/Unary", message);
        assert.deepEqual([code, String(answer), trailers["x-trailer"]], [0, "message", "kept"]);
      });
      await t.test("a call that fails, with its details and trailers", async () => {
        const { code, details, trailers } = await client.unary("/echo.Echo/Fail", message);
        assert.deepEqual([code, details, trailers["x-trailer"]], [9, "not now", "kept"]);
      });
      await t.test("a call that takes 17 s", async () => {
        const { code, message: answer } = await client.unary("/echo.Echo/Slow", message);
        assert.deepEqual([code, String(answer)], [0, "message"]);
      });
      await t.test("a stream of the client", async () => {
        const { code, message: answer } = await client.clientStream(
          "/echo.Echo/Up",
          Array(20).fill(message),
        );
        assert.deepEqual([code, String(answer)], [0, "20"]);
      });
      await t.test("a stream of the server", async () => {
        const stream = client.serverStream("/echo.Echo/Down", message);
        const trailers = once(stream, "status");
        const messages = await stream.toArray();
        assert.deepEqual(messages.map(String), ["one", "two", "three"]);
        const [{ metadata }] = await trailers;
        assert.deepEqual(metadata.get("x-trailer"), ["kept"]);
      });
      await t.test(
        "a stream in both directions, each message an answer to the one before",
        async () => {
          const stream = client.bidirectional("/echo.Echo/Both");
          const trailers = once(stream, "status");
          for (const each of ["one", "two", "three"]) {
            stream.write(Buffer.from(each));
            const [answer] = await once(stream, "data");
            assert.equal(String(answer), each);
          }
          stream.end();
          const [{ code, metadata }] = await trailers;
          assert.deepEqual([code, metadata.get("x-trailer")], [0, ["kept"]]);
        },
      );
    });
  }
});

for (const bootstrap of BOOTSTRAPS)
  test(`${bootstrap}: a client and an application on grpc-go`, async (t) => {
    const application = child(t, grpcEcho(), ["server"]);
    await application.until("it listens", () => application.out().endsWith("\n"));
    const envoy = await before(t, bootstrap, Number(application.out()));
    const client = child(t, grpcEcho(), ["client", `127.0.0.1:${envoy.port}`]);
    assert.equal(await client.ended, 0, client.err());
    const good = { Code: 0, Details: "", Trailer: ["kept"] };
    assert.deepEqual(JSON.parse(client.out()), {
      Unary: { Messages: ["message"], ...good },
      Fail: { Messages: [""], Code: 9, Details: "not now", Trailer: ["kept"] },
      Both: { Messages: ["one", "two", "three"], ...good },
    });
  });

test("a request that calls itself gRPC does not reach an application that speaks HTTP/1.1", async (t) => {
  const application = await startApplication(t);
  const envoy = await before(t, "injected", application.port);
  const headers = { "content-type": "application/grpc" };
  const answer = await http1(t, envoy.url)({ method: "POST", headers, body: "{}" });
  assert.equal(answer.headers["grpc-status"], "14");
  assert.deepEqual(application.paths, []);
});

test("an upload that waits for answers passes where classifiers see no bodies", async (t) => {
  const application = await startApplication(t);
  const envoy = await before(t, "injected", application.port, { bodyBytes: 0 });
  const outgoing = request(`${envoy.url}/talk`, { method: "POST", agent: new Agent() });
  outgoing.write("one");
  const [response] = await once(outgoing, "response");
  assert.equal(String((await once(response, "data"))[0]), "one");
  outgoing.end("two");
  assert.equal(Buffer.concat(await response.toArray()).toString(), "two");
});

test("escaped slashes: refused, unless the pod says otherwise", async (t) => {
  const application = await startApplication(t);
  const ask = async (traffic: Partial<EnvoyTraffic>) => {
    const envoy = await before(t, "injected", application.port, traffic);
    const { status, headers } = await http1(t, envoy.url)({ path: "/a%2Fb" });
    return [status, headers["location"], application.paths.at(-1)];
  };
  assert.deepEqual(await ask({}), [400, undefined, undefined]);
  assert.deepEqual(await ask({ escapedSlashes: "redirect" }), [307, "/a/b", undefined]);
  assert.deepEqual(await ask({ escapedSlashes: "keep" }), [200, undefined, "/a%2Fb"]);
});

test("tunnels pass where the pod says so, and are checked", async (t) => {
  const application = await startApplication(t);
  const openedBy = async (traffic: Partial<EnvoyTraffic>, ...more: readonly string[]) => {
    const envoy = await before(t, "injected", application.port, traffic);
    const socket = await connected(t, envoy.port);
    const head = ["CONNECT shop:443 HTTP/1.1", "host: shop:443", ...more];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    const [answer = ""] = await once(socket, "data");
    return { socket, status: String(answer).slice(9, 12) };
  };
  assert.equal((await openedBy({})).status, "404");
  assert.equal((await openedBy({ upgrades: ["CONNECT"] }, "x-shut: yes")).status, "403");
  assert.deepEqual(application.paths, []);
  const { socket, status } = await openedBy({ upgrades: ["CONNECT"] });
  assert.equal(status, "200");
  assert.deepEqual(application.paths, ["shop:443"]);
  socket.write("hello");
  assert.equal(await received(socket, "hello"), "hello");
});

test("an Envoy that is told that its pod ends asks its clients to leave, and answers until they have", async (t) => {
  const application = await startApplication(t);
  const envoy = await before(t, "injected", application.port);
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const ask = async () => {
    const [response] = await once(request(`${envoy.url}/version`, { agent }).end(), "response");
    return [response.resume().statusCode, response.headers.connection];
  };
  const chat = await upgraded(t, envoy.port, "/chat");
  assert.match(await received(chat, "\r\n\r\n"), /^HTTP\/1\.1 101 /);
  assert.deepEqual(await ask(), [200, undefined]);

  const { exec } = drainingEnvoy(envoy.admin, 0) as { exec: { command: [string, ...string[]] } };
  const [program, ...args] = exec.command;
  execFileSync(program, args);
  for (let each = 0; each < 5; each += 1) assert.deepEqual(await ask(), [200, "close"]);
  chat.write("still here");
  assert.equal(await received(chat, "still here"), "still here");
  const session = connectHttp2(envoy.url);
  t.after(() => session.destroy());
  const left = once(session, "goaway");
  session.request({ ":path": "/version" }).resume();
  await left;
});

async function answerTo(ask: Client, path: string, method = "GET"): Promise<[number, string]> {
  const { status, body } = await ask({ path, method });
  return [status, body];
}

async function connected(t: TestContext, port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  await once(socket, "connect");
  return socket.setEncoding("latin1");
}

async function upgraded(t: TestContext, port: number, path: string): Promise<Socket> {
  const socket = await connected(t, port);
  const head = [`GET ${path} HTTP/1.1`, "host: shop", "connection: upgrade", "upgrade: websocket"];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  return socket;
}

/** What has arrived up to this end. */
async function received(socket: Socket, end: string): Promise<string> {
  let text = "";
  while (!text.endsWith(end)) text += (await once(socket, "data"))[0];
  return text;
}

async function rest(socket: Socket): Promise<string> {
  return (await socket.toArray()).join("");
}
