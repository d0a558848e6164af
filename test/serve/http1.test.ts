// HTTP/1.1 where requests stand one behind the other: what belongs to none of them is never run as one, what comes
// behind the last reply is not run at all, and nothing waits for a peer that is gone.

import assert from "node:assert/strict";
import { once } from "node:events";
import { IncomingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { MAX_STREAMS } from "#serve/h2/limits.ts";
import type { HttpReply, Route } from "#serve/handler.ts";
import {
  dial,
  exchange,
  memoryMeter,
  type Overrides,
  readAll,
  testPort,
  until,
} from "../kit/port.ts";

const MIB = 1024 * 1024;
const CLOSE = "connection: close\r\n";
const H2C = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n";

const text = (body: string | Uint8Array): HttpReply => ({
  status: 200,
  headers: { "content-type": "text/plain" },
  body,
});
const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${more}\r\n`;
const post = (body: string, more = "") =>
  `POST /check HTTP/1.1\r\nhost: x\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;
const CONNECT = "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n";

/** A port that notes which of its handlers ran. */
async function serving(t: TestContext, http: Overrides["http"] = {}) {
  const ran: string[] = [];
  const letGo = Promise.withResolvers<void>();
  const route = (
    method: Route["method"],
    path: string,
    reply: (body: Uint8Array) => HttpReply | Promise<HttpReply>,
    more: Partial<Route> = {},
  ): Route => ({
    ...{ method, path, about: "", ...more },
    handle: ({ body }) => {
      ran.push(path);
      return reply(body);
    },
  });
  const large = new Uint8Array(MIB);
  const routes = [
    route("GET", "/", () => text("here")),
    route("GET", "/slow", () => after(50).then(() => text("slow"))),
    route("GET", "/held", () => letGo.promise.then(() => text("held"))),
    route("GET", "/large", () => text(large)),
    route("POST", "/grow", () => text(new Uint8Array(8 * MIB))),
    route("POST", "/check", (body) => text(`took ${body.length}`), { body: "json" }),
  ];
  const { meter, http: counted } = memoryMeter();
  const port = await testPort(t, { routes, meter, settings: { http } });
  t.after(() => letGo.resolve());
  const statuses = () => counted.map(({ status }) => status);
  /** Statuses of the replies to what is sent, part after part, until the server closes. */
  const replies = async (...parts: readonly string[]) => {
    const socket = dial(t, port);
    const seen = readAll(socket);
    for (const part of parts) {
      socket.write(part);
      await after(30);
    }
    const found = (await seen).matchAll(/HTTP\/1\.1 (\d{3}) /g);
    return [...found].map(([, status]) => Number(status));
  };
  return { port, ran, statuses, replies, letGo: letGo.resolve };
}

test("a request to go on as HTTP/2 is answered, and is the last on its connection", async (t) => {
  const { port, ran } = await serving(t);
  const reply = await exchange(dial(t, port), get("/", H2C));
  assert.match(reply, /^HTTP\/1\.1 200 .*\r\nconnection: close\r\n.*here$/is);
  assert.match(await exchange(dial(t, port), post("{}", H2C)), /took 2$/);
  assert.match(await exchange(dial(t, port), get("/slow", H2C) + get("/")), /slow$/);
  assert.deepEqual(ran, ["/", "/check", "/slow"]);
});

test("the body of a request behind it is never run as a request", async (t) => {
  for (const first of [get("/", H2C), get("/slow", H2C), post("{}", H2C), get("/", CLOSE)]) {
    const { ran, replies } = await serving(t);
    const whole = post(get("/held"));
    const bodyStart = whole.length - get("/held").length;
    const seen = await replies(first + whole.slice(0, bodyStart), whole.slice(bodyStart));
    assert.deepEqual([seen, ran.length], [[200], 1], `${first}: ${ran}`);
  }
});

test("what comes behind the last reply is not run", async (t) => {
  const refusals: readonly (readonly [first: string, status: number])[] = [
    [get("/", CLOSE), 200],
    [get("/slow", CLOSE), 200],
    ["GET / HTTP/1.1\r\n\r\n", 400],
    [get("/nowhere", CLOSE), 404],
    [post("{}", `content-type: text/plain\r\n${CLOSE}`), 415],
  ];
  for (const [first, status] of refusals) {
    for (const behind of [post("{}"), get("/"), CONNECT, "rubbish\r\n\r\n"]) {
      for (const parts of [[first + behind], [first, behind]]) {
        const { ran, replies, statuses } = await serving(t);
        assert.deepEqual(await replies(...parts), [status], first + behind);
        assert.ok(ran.length <= 1 && !ran.includes("/check"), `${first}: ${ran}`);
        assert.deepEqual(statuses(), [status]);
      }
    }
  }
});

test("what waits on a connection is let go where somebody asks for a tunnel", async (t) => {
  const { port, ran, statuses, letGo } = await serving(t);
  const [connections, large] = [8, 10];
  for (let made = 0; made < connections; made++) {
    const socket = dial(t, port);
    assert.equal(await exchange(socket, get("/held") + get("/large").repeat(large) + CONNECT), "");
  }
  assert.equal(ran.length, connections * (1 + large));
  assert.equal(statuses().length, ran.length, "they are over");
  const reply = await exchange(dial(t, port), get("/large", CLOSE));
  assert.match(reply.slice(0, 15), /^HTTP\/1\.1 200 /, "there is room for replies again");
  letGo();
});

test("a refusal that nobody was sent, as a drain ended the connection first, is not counted", async (t) => {
  const { port, statuses } = await serving(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(`${get("/slow")}rubbish\r\n\r\n`);
  await after(20);
  await port.drain();
  assert.match(await seen, /slow$/);
  assert.deepEqual(statuses(), [200]);
});

test("requests behind the last reply are not even kept", async (t) => {
  const { port, ran, letGo } = await serving(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held", H2C));
  await until("it runs", () => ran.length === 1);
  const flood = get("/").repeat(1_000);
  for (let sent = 0; sent < 20; sent++) {
    if (!socket.write(flood)) await once(socket, "drain");
  }
  await after(100);
  const kept = queryObjects(IncomingMessage, { format: "count" });
  assert.ok(kept < 5_000, `${kept} requests`);
  letGo();
  assert.match(await seen, /held$/);
  assert.deepEqual(ran, ["/held"]);
});

test("refusals that nobody takes are cut after write_timeout like every other reply", async (t) => {
  const { port, statuses } = await serving(t, { write_timeout: 200 });
  for (const asked of [get("/nowhere"), get("/check")]) {
    const socket = dial(t, port);
    let closed = false;
    socket.once("close", () => {
      closed = true;
    });
    socket.pause();
    // The replies are more than the system takes for its peer.
    socket.write(asked.repeat(100_000));
    // Nothing goes on, for far longer than a reply may take: it is blocked, or cut.
    for (let had = -1; had !== statuses().length; ) {
      had = statuses().length;
      await after(800);
    }
    socket.resume();
    await until(`${asked} ends`, () => closed, 10_000);
  }
});

test("who closes its half gets the reply in hand, and no other decision is made for it", async (t) => {
  const { port, ran, statuses } = await serving(t);
  const second = [post("{}"), get("/")];
  for (const behind of second) {
    const socket = dial(t, port);
    socket.pause();
    socket.write("POST /grow HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
    await until("it runs", () => ran.length === 1);
    socket.end(behind);
    await after(50);
    const seen = readAll(socket);
    socket.resume();
    assert.equal((await seen).match(/HTTP\/1\.1 /g)?.length, 1);
    assert.deepEqual([ran.splice(0), statuses().at(-1)], [["/grow"], 200]);
  }
  assert.equal(statuses().length, second.length);
});

test("a connection has no more handlers at work than one of HTTP/2", async (t) => {
  const { port, ran, letGo } = await serving(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held").repeat(MAX_STREAMS + 50));
  await until("they run", () => ran.length === MAX_STREAMS);
  await after(50);
  letGo();
  const statuses = [...(await seen).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.equal(ran.length, MAX_STREAMS);
  assert.deepEqual(
    [statuses.length, statuses.at(-2), statuses.at(-1)],
    [MAX_STREAMS + 1, "200", "503"],
  );
});

test("rubbish in many parts is refused once, and leaves nothing behind each part", async (t) => {
  const { port, statuses, letGo } = await serving(t);
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on("warning", warned);
  t.after(() => process.off("warning", warned));
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held"));
  for (let part = 0; part < 20; part++) {
    socket.write("rubbish\r\n\r\n");
    await after(5);
  }
  letGo();
  assert.match(await seen, /heldHTTP\/1\.1 400 /);
  assert.deepEqual([statuses(), warnings], [[200, 400], []]);
});

test("rubbish behind a refusal that is still being read gets no reply of its own", async (t) => {
  const { replies, statuses } = await serving(t);
  const refused = post("{}", "content-type: text/plain\r\n");
  assert.deepEqual(await replies(refused, `rubbish\r\n\r\n${get("/")}`), [415, 400]);
  assert.deepEqual(statuses(), [415, 400]);
});

test("hosts", async (t) => {
  const { replies, statuses } = await serving(t);
  const good = [
    ...[
      "x",
      "a.b-c_d~:80",
      "10.0.0.1:8080",
      "[::1]",
      "[fe80::1%25eth0]:80",
      "",
      "x:",
      "%2Ftmp%2Fsock",
    ],
    ...["outbound|80||svc.ns.svc.cluster.local", "sluice/http", "outbound_.80_._.svc.ns"],
  ];
  const bad = ["a b", "a, b", "a\tb", "http://a/../@b", "u:p@a"];
  for (const [hosts, status] of [
    [good, 200],
    [bad, 400],
  ] as const) {
    for (const host of hosts) {
      const asked = `GET / HTTP/1.1\r\nhost: ${host}\r\n${CLOSE}\r\n`;
      assert.deepEqual(await replies(asked), [status], host);
      // In one piece and alone, as most come.
      const plain = `POST /check HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 2\r\n\r\n{}`;
      const seen = await replies(plain, get("/", CLOSE));
      assert.deepEqual(seen, status === 200 ? [200, 200] : [400], `${host}, plain`);
    }
  }
  assert.ok(!statuses().includes(0));
  const named = get("/", `x-host: host\r\nhosts: host\r\n${CLOSE}`);
  assert.deepEqual(await replies(named), [200], "values are no names");
});

test("versions, and targets in absolute form", async (t) => {
  const { replies } = await serving(t);
  for (const version of ["0.9", "1.2", "2.0", "3.0"]) {
    const [status = 0] = await replies(`GET / HTTP/${version}\r\nhost: x\r\n\r\n`);
    assert.ok(status === 505 || status === 400, `${version}: ${status}`);
  }
  assert.deepEqual(await replies("GET / HTTP/1.0\r\nhost: x\r\n\r\n"), [200]);
  assert.deepEqual(await replies(get("http://y?q=/slow", CLOSE)), [200], "its path is /");
  assert.deepEqual(await replies(get("http://y/slow?q=/", CLOSE)), [200]);
  assert.deepEqual(await replies(get("http://y/nowhere?q=/slow", CLOSE)), [404]);
});

test("who expects something else is not told to go on", async (t) => {
  const { port } = await serving(t);
  const reply = await exchange(dial(t, port), post("{}", `expect: miracles\r\n${CLOSE}`));
  assert.match(reply, /^HTTP\/1\.1 200 .*took 2$/s);
});
