// Pipelined HTTP/1.1 requests: bytes that belong to no request are never handled as one, requests after the last
// reply are not handled at all, and nothing waits for a client that has left.

import assert from "node:assert/strict";
import { once } from "node:events";
import { IncomingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import { queryObjects } from "node:v8";
import type { HttpReply, Route } from "#base/handler.ts";
import { MAX_CONCURRENT_CALLS } from "#h2/limits.ts";
import { arrived, serverEnd } from "../../../kit/attack/server-end.ts";
import {
  dial,
  exchange,
  memoryMeter,
  type Overrides,
  readAll,
  testPort,
} from "../../../kit/sluice/port.ts";
import { until } from "../../../kit/until.ts";

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

/** Opens a port that records which handlers ran. */
async function openTestPort(t: TestContext, http: Overrides["http"] = {}) {
  const ran: string[] = [];
  const letGo = Promise.withResolvers<void>();
  const route = (
    method: Route["method"],
    path: string,
    reply: (body: Uint8Array) => HttpReply | Promise<HttpReply>,
    more: Partial<Route> = {},
  ): Route => ({
    method,
    path,
    about: "",
    ...more,
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
  /** Sends the parts and returns the statuses of all replies until the server closes. */
  const replies = async (...parts: readonly string[]) => {
    const socket = dial(t, port);
    const seen = readAll(socket);
    for (const part of parts) {
      socket.write(part);
      await arrived(socket);
    }
    const found = (await seen).matchAll(/HTTP\/1\.1 (\d{3}) /g);
    return [...found].map(([, status]) => Number(status));
  };
  return { port, ran, statuses, replies, letGo: letGo.resolve };
}

test("answers a request to upgrade to HTTP/2 as HTTP/1.1, as the last on its connection", async (t) => {
  const { port, ran } = await openTestPort(t);
  const reply = await exchange(dial(t, port), get("/", H2C));
  assert.match(reply, /^HTTP\/1\.1 200 .*\r\nconnection: close\r\n.*here$/is);
  assert.match(await exchange(dial(t, port), post("{}", H2C)), /took 2$/);
  assert.match(await exchange(dial(t, port), get("/slow", H2C) + get("/")), /slow$/);
  assert.deepEqual(ran, ["/", "/check", "/slow"]);
});

test("never handles the body of a request after it as a request", async (t) => {
  for (const first of [get("/", H2C), get("/slow", H2C), post("{}", H2C), get("/", CLOSE)]) {
    const { ran, replies } = await openTestPort(t);
    const whole = post(get("/held"));
    const bodyStart = whole.length - get("/held").length;
    const seen = await replies(first + whole.slice(0, bodyStart), whole.slice(bodyStart));
    assert.deepEqual([seen, ran.length], [[200], 1], `${first}: ${ran}`);
  }
});

test("does not handle requests after the last reply", async (t) => {
  const refusals: readonly (readonly [first: string, status: number])[] = [
    [get("/", CLOSE), 200],
    [get("/slow", CLOSE), 200],
    ["GET / HTTP/1.1\r\n\r\n", 400],
    [get("/nowhere", CLOSE), 404],
    [post("{}", `content-type: text/plain\r\n${CLOSE}`), 415],
  ];
  for (const [first, status] of refusals) {
    for (const behind of [post("{}"), get("/"), CONNECT, "garbage\r\n\r\n"]) {
      for (const parts of [[first + behind], [first, behind]]) {
        const { ran, replies, statuses } = await openTestPort(t);
        assert.deepEqual(await replies(...parts), [status], first + behind);
        assert.ok(ran.length <= 1 && !ran.includes("/check"), `${first}: ${ran}`);
        assert.deepEqual(statuses(), [status]);
      }
    }
  }
});

test("releases what waits on a connection when the client sends CONNECT", async (t) => {
  const { port, ran, statuses, letGo } = await openTestPort(t);
  const [connections, large] = [8, 10];
  for (let made = 0; made < connections; made++) {
    const socket = dial(t, port);
    assert.equal(await exchange(socket, get("/held") + get("/large").repeat(large) + CONNECT), "");
  }
  assert.equal(ran.length, connections * (1 + large));
  assert.equal(statuses().length, ran.length, "all requests have ended");
  const reply = await exchange(dial(t, port), get("/large", CLOSE));
  assert.match(reply.slice(0, 15), /^HTTP\/1\.1 200 /, "there is space for replies again");
  letGo();
});

test("does not count a refusal that was not sent because a drain ended the connection first", async (t) => {
  const { port, statuses, letGo } = await openTestPort(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(`${get("/held")}garbage\r\n\r\n`);
  await arrived(socket);
  const idle = dial(t, port);
  const ended = exchange(idle, get("/"));
  await until("it is idle", () => statuses().length === 1);
  const drained = port.drain();
  await ended;
  letGo();
  assert.match(await seen, /held$/);
  await drained;
  assert.deepEqual(statuses(), [200, 200]);
});

test("does not buffer requests after the last reply", async (t) => {
  const { port, ran, letGo } = await openTestPort(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held", H2C));
  await until("it runs", () => ran.length === 1);
  const flood = get("/").repeat(1_000);
  for (let sent = 0; sent < 20; sent++) {
    if (!socket.write(flood)) await once(socket, "drain");
  }
  await arrived(socket);
  const buffered = queryObjects(IncomingMessage, { format: "count" });
  assert.ok(buffered < 5_000, `${buffered} requests are buffered`);
  letGo();
  assert.match(await seen, /held$/);
  assert.deepEqual(ran, ["/held"]);
});

test("cuts refusals that the client does not read after write_timeout, like every other reply", async (t) => {
  const { port } = await openTestPort(t, { write_timeout: 200 });
  for (const asked of [get("/nowhere"), get("/check")]) {
    const socket = dial(t, port);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.pause();
    // The replies exceed what the kernel buffers for the client.
    socket.write(asked.repeat(100_000));
    await until(`${asked} is cut`, () => serverEnd(socket)?.destroyed === true);
    socket.resume();
    await closed;
  }
});

test("a client that half-closes gets the reply in progress, and no other request is handled for it", async (t) => {
  const { port, ran, statuses } = await openTestPort(t);
  const second = [post("{}"), get("/")];
  for (const behind of second) {
    const socket = dial(t, port);
    socket.pause();
    socket.write("POST /grow HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
    await until("it runs", () => ran.length === 1);
    socket.end(behind);
    await arrived(socket);
    const seen = readAll(socket);
    socket.resume();
    assert.equal((await seen).match(/HTTP\/1\.1 /g)?.length, 1);
    assert.deepEqual([ran.splice(0), statuses().at(-1)], [["/grow"], 200]);
  }
  assert.equal(statuses().length, second.length);
});

test("limits concurrent handlers of a connection as over HTTP/2", async (t) => {
  const { port, ran, letGo } = await openTestPort(t);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held").repeat(MAX_CONCURRENT_CALLS + 50));
  await until("they run", () => ran.length === MAX_CONCURRENT_CALLS);
  await arrived(socket);
  letGo();
  const statuses = [...(await seen).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.equal(ran.length, MAX_CONCURRENT_CALLS);
  assert.deepEqual(
    [statuses.length, statuses.at(-2), statuses.at(-1)],
    [MAX_CONCURRENT_CALLS + 1, "200", "503"],
  );
});

test("refuses garbage in many parts once, without a leak for each part", async (t) => {
  const { port, statuses, letGo } = await openTestPort(t);
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on("warning", warned);
  t.after(() => process.off("warning", warned));
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write(get("/held"));
  for (let part = 0; part < 20; part++) {
    socket.write("garbage\r\n\r\n");
    await arrived(socket);
  }
  letGo();
  assert.match(await seen, /heldHTTP\/1\.1 400 /);
  assert.deepEqual([statuses(), warnings], [[200, 400], []]);
});

test("sends no further reply for garbage after a refusal that is still being read", async (t) => {
  const { replies, statuses } = await openTestPort(t);
  const refused = post("{}", "content-type: text/plain\r\n");
  assert.deepEqual(await replies(refused, `garbage\r\n\r\n${get("/")}`), [415, 400]);
  assert.deepEqual(statuses(), [415, 400]);
});

test("accepts valid and refuses invalid host fields", async (t) => {
  const { replies, statuses } = await openTestPort(t);
  const good = [
    "x",
    "a.b-c_d~:80",
    "10.0.0.1:8080",
    "[::1]",
    "[fe80::1%25eth0]:80",
    "",
    "x:",
    "%2Ftmp%2Fsock",
    "outbound|80||svc.ns.svc.cluster.local",
    "sluice/http",
    "outbound_.80_._.svc.ns",
  ];
  const bad = ["a b", "a, b", "a\tb", "http://a/../@b", "u:p@a"];
  for (const [hosts, status] of [
    [good, 200],
    [bad, 400],
  ] as const) {
    for (const host of hosts) {
      const asked = `GET / HTTP/1.1\r\nhost: ${host}\r\n${CLOSE}\r\n`;
      assert.deepEqual(await replies(asked), [status], host);
      // In one piece and alone, so that the request takes the fast path.
      const plain = `POST /check HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 2\r\n\r\n{}`;
      const seen = await replies(plain, get("/", CLOSE));
      assert.deepEqual(seen, status === 200 ? [200, 200] : [400], `${host}, plain`);
    }
  }
  assert.ok(!statuses().includes(0));
  const named = get("/", `x-host: host\r\nhosts: host\r\n${CLOSE}`);
  assert.deepEqual(await replies(named), [200], "a value that looks like a host field");
});

test("refuses unknown versions and accepts targets in absolute form", async (t) => {
  const { replies } = await openTestPort(t);
  const refused = { "0.9": 505, "1.2": 400, "1.9": 400, "2.0": 505, "3.0": 400 };
  for (const [version, status] of Object.entries(refused)) {
    const seen = await replies(`GET / HTTP/${version}\r\nhost: x\r\n\r\n`);
    assert.equal(seen[0], status, version);
  }
  assert.deepEqual(await replies("GET / HTTP/1.0\r\nhost: x\r\n\r\n"), [200]);
  assert.deepEqual(await replies(get("http://y?q=/slow", CLOSE)), [200], "the path is /");
  assert.deepEqual(await replies(get("http://y/slow?q=/", CLOSE)), [200]);
  assert.deepEqual(await replies(get("http://y/nowhere?q=/slow", CLOSE)), [404]);
});

test("does not send 100 Continue for an unknown expectation", async (t) => {
  const { port } = await openTestPort(t);
  const reply = await exchange(dial(t, port), post("{}", `expect: miracles\r\n${CLOSE}`));
  assert.match(reply, /^HTTP\/1\.1 200 .*took 2$/s);
});
