import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import type { Clock } from "#base/clock.ts";
import type { GrpcService, HttpReply, Route } from "#base/handler.ts";
import { FIRST_REQUEST_WITHIN_MS } from "#serve/listen/acceptor.ts";
import { grpcClient, type TestClient } from "../kit/clients/grpc.ts";
import {
  END_HEADERS,
  END_STREAM,
  headers,
  httpFields,
  PREFACE,
  settings,
} from "../kit/clients/h2.ts";
import { block } from "../kit/clients/hpack.ts";
import { fakeClock } from "../kit/clock.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { dial, type Overrides, readAll, realClock, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const message = Buffer.from("a message");

/** Opens a port with a gRPC method and a route that answer only when the test releases them. */
async function openSlowPort(t: TestContext, settings: Overrides, clock: Clock = realClock) {
  const waiting: (() => void)[] = [];
  const released = () => new Promise<void>((resolve) => waiting.push(resolve));
  const service: GrpcService = {
    name: "test.Slow",
    methods: {
      Say: { kind: "unary", handle: (bytes) => released().then(() => bytes) },
      Now: { kind: "unary", handle: (bytes) => bytes },
    },
  };
  const here: HttpReply = { status: 200, headers: {}, body: "here" };
  const routes: readonly Route[] = [
    { method: "GET", path: "/slow", about: "", handle: () => released().then(() => here) },
    { method: "GET", path: "/now", about: "", handle: () => here },
  ];
  const port = await testPort(t, { services: [service], routes, clock, settings });
  return {
    port,
    client: grpcClient(t, port.address),
    url: `http://${port.address}`,
    held: () => waiting.length,
    release: () => {
      for (const each of waiting.splice(0)) each();
    },
  };
}

/** The port has stopped listening. Connections that the system had accepted until then come first. */
function notListening(url: string): Promise<void> {
  const refused = () =>
    fetch(`${url}/now`).then(
      () => false,
      () => true,
    );
  return until("no connection is accepted", refused);
}

async function ended(promise: Promise<void>): Promise<boolean> {
  const later = new Promise<boolean>((resolve) => setImmediate(() => resolve(false)));
  return Promise.race([promise.then(() => true), later]);
}

test("a drain accepts connections for accept_for, then finishes the calls in progress, then ends", async (t) => {
  const clock = fakeClock();
  const drain = { accept_for: 1_000, grace: 5_000 };
  const { port, client, url, held, release } = await openSlowPort(t, { drain }, clock);
  const session = connectHttp2(url);
  t.after(() => session.destroy());
  await new Promise((resolve) => session.once("remoteSettings", resolve));
  let goaway: number | undefined;
  session.on("goaway", (code) => {
    goaway = code;
  });
  const drained = port.drain();
  assert.equal(port.drain(), drained);

  const accepted = await fetch(`${url}/now`);
  assert.equal(accepted.status, 200, "a new connection is still accepted");
  assert.equal(accepted.headers.get("connection"), "close");
  assert.equal((await client.unary("/test.Slow/Now", message)).code, 0);
  const calls = [client.unary("/test.Slow/Say", message), client.unary("/test.Slow/Say", message)];
  const slow = fetch(`${url}/slow`);
  await until("calls", () => held() === 3);
  clock.advance(999);
  assert.equal(await ended(drained), false);
  assert.equal(goaway, undefined);

  clock.advance(1);
  await until("goaway", () => goaway !== undefined);
  assert.equal(goaway, 0);
  await assert.rejects(fetch(`${url}/now`), "the port still accepts connections");
  assert.equal(await ended(drained), false, "the drain ended while calls were in progress");
  release();
  for (const call of calls) assert.deepEqual((await call).message, message);
  assert.equal(await (await slow).text(), "here");
  await drained;
  assert.deepEqual(port.log.lines, []);
});

test("cuts and logs calls that do not end within the grace time", async (t) => {
  const clock = fakeClock();
  const drain = { accept_for: 0, grace: 10_000 };
  const { port, client, url, held } = await openSlowPort(t, { drain }, clock);
  const call = client.unary("/test.Slow/Say", message);
  const slow = assert.rejects(fetch(`${url}/slow`));
  await until("calls", () => held() === 2);
  const drained = port.drain();
  await notListening(url);
  clock.advance(9_999);
  assert.equal(await ended(drained), false);
  clock.advance(1);
  await drained;
  assert.notEqual((await call).code, 0);
  await slow;
  assert.match(port.log.lines[0]?.message ?? "", /grace/);
});

/** Watches the health of the whole process and collects the raw replies in hex, then "end". */
async function watched(client: TestClient): Promise<readonly string[]> {
  const replies: string[] = [];
  const call = client.serverStream("/grpc.health.v1.Health/Watch", new Uint8Array(0));
  call.on("data", (reply: Uint8Array) => replies.push(Buffer.from(reply).toString("hex")));
  call.on("end", () => replies.push("end"));
  call.on("error", () => replies.push("end"));
  await until("first health", () => replies.length === 1);
  return replies;
}

const NOT_SERVING = "0802";

for (const [when, drain, sign] of [
  ["still accepts", { accept_for: 60_000, grace: 60_000 }, NOT_SERVING],
  ["waits for calls", { accept_for: 0, grace: 60_000 }, "end"],
] as const) {
  test(`cut() while a drain ${when} ends both at once`, async (t) => {
    const { port, client, url, held } = await openSlowPort(t, { drain }, fakeClock());
    const call = client.unary("/test.Slow/Say", message);
    const slow = assert.rejects(fetch(`${url}/slow`));
    await until("calls", () => held() === 2);
    const health = await watched(client);
    const drained = port.drain();
    await until(sign, () => health.includes(sign));
    assert.equal(health.includes("end"), sign === "end");
    // Time stands still: nothing ends because the drain has taken long enough.
    await port.cut();
    await drained;
    assert.notEqual((await call).code, 0);
    await slow;
    await port.cut();
  });
}

test("idle connections and incomplete requests do not delay a drain", async (t) => {
  const clock = fakeClock();
  const drain = { accept_for: 0, grace: 30_000 };
  const { port, client, url } = await openSlowPort(t, { drain }, clock);
  await (await fetch(`${url}/now`)).text();
  await client.unary("/test.Slow/Now", message);
  const silent = dial(t, port);
  const begun = dial(t, port);
  begun.write("PRI * HT");
  const idle = dial(t, port);
  let received = "";
  idle.on("data", (chunk) => {
    received += chunk;
  });
  idle.write("GET /now HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("reply", () => received.endsWith("here"));
  const closed = [silent, begun].map(readAll);
  clock.advance(FIRST_REQUEST_WITHIN_MS);
  // Time stands still: nothing ends because the drain has taken long enough.
  await port.drain();
  assert.deepEqual(await Promise.all(closed), ["", ""]);
});

test("a call in progress when the drain begins is answered with connection: close", async (t) => {
  const { port, held, release } = await openSlowPort(t, {
    drain: { accept_for: 0, grace: 30_000 },
  });
  const socket = dial(t, port);
  socket.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("call", () => held() === 1);
  const drained = port.drain();
  const all = readAll(socket);
  release();
  await drained;
  assert.match(await all, /^HTTP\/1\.1 200 .*connection: close.*here$/is);
});

test("answers a request completed after the port stopped accepting with 503", async (t) => {
  const { port, url, held, release } = await openSlowPort(t, {
    drain: { accept_for: 0, grace: 30_000 },
  });
  const begun = dial(t, port);
  begun.write("GET /now HTTP/1.1\r\nhost: x\r\n");
  const other = dial(t, port);
  other.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("call", () => held() === 1);
  const drained = port.drain();
  await notListening(url);
  const all = readAll(begun);
  begun.write("\r\n");
  assert.match(await all, /^HTTP\/1\.1 503 .*retry-after: 1\r\n.*"code":14/is);
  release();
  await drained;
});

const HTTP1_CALL = Buffer.from("GET /now HTTP/1.1\r\nhost: x\r\n\r\n");
const HTTP2_CALL = Buffer.concat([
  PREFACE,
  settings(),
  headers(1, block(httpFields("GET", "/now")), END_HEADERS | END_STREAM),
]);

/** What a caller reads until it has its reply, and closes its connection, or until that is closed. */
async function replyOver(socket: Socket, connection: Socket): Promise<string> {
  let received = "";
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
    if (received.includes("here")) connection.destroy();
  });
  await once(connection, "close");
  return received;
}

for (const [how, call, sentBefore, tls] of [
  ["a request over HTTP/1.1", HTTP1_CALL, 0, false],
  ["a request over HTTP/2", HTTP2_CALL, 0, false],
  ["the rest of a request over HTTP/2", HTTP2_CALL, 10, false],
  ["a TLS handshake and a request", HTTP1_CALL, 0, true],
] as const) {
  test(`answers ${how} that callers send just after it stopped listening`, async (t) => {
    const CALLERS = 50;
    const ca = authority(temporaryFolder(t), "ca");
    const { certFile, keyFile } = ca.issue("server");
    const certificate = { enabled: tls, cert_file: certFile, key_file: keyFile };
    for (let drains = 0; drains < 3; drains++) {
      const drain = { accept_for: 0, grace: 30_000 };
      const over = tls ? { drain, tls: certificate } : { drain };
      const { port, url } = await openSlowPort(t, over, fakeClock());
      const callers = Array.from({ length: CALLERS }, () => dial(t, port));
      await Promise.all(callers.map((socket) => once(socket, "connect")));
      for (const socket of callers) socket.write(call.subarray(0, sentBefore));
      const drained = port.drain();
      await notListening(url);
      const replies = callers.map(async (raw) => {
        const socket = tls
          ? connectTls({ socket: raw, ca: ca.cert, servername: "localhost" })
          : raw;
        socket.write(call.subarray(sentBefore));
        return await replyOver(socket, raw);
      });
      for (const reply of await Promise.all(replies)) assert.match(reply, /here/);
      await drained;
    }
  });
}

for (const [most, grace, wait] of [
  ["a second after the last connection", 30_000, FIRST_REQUEST_WITHIN_MS],
  ["the grace time", 200, 200],
] as const) {
  test(`waits for first requests no longer than ${most}`, async (t) => {
    const clock = fakeClock();
    const { port, url } = await openSlowPort(t, { drain: { accept_for: 0, grace } }, clock);
    const silent = dial(t, port);
    await until("it is accepted", () => port.connections().length === 1);
    const drained = port.drain();
    await notListening(url);
    clock.advance(wait - 1);
    assert.equal(await ended(drained), false);
    const all = readAll(silent);
    clock.advance(1);
    await until("it is closed", () => port.connections().length === 0);
    assert.equal(await all, "");
    await drained;
    assert.deepEqual(port.log.lines, [], "no call was cut");
  });
}

test("answers a caller that was in the middle of its TLS handshake when it stopped listening", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { certFile, keyFile } = ca.issue("server");
  const tls = { enabled: true, cert_file: certFile, key_file: keyFile };
  const over = { drain: { accept_for: 0, grace: 30_000 }, tls };
  const { port, url } = await openSlowPort(t, over, fakeClock());
  const raw = dial(t, port);
  // The caller reads nothing until it is told to.
  const between = new Duplex({ read() {}, write: (bytes, _, done) => void raw.write(bytes, done) });
  const socket = connectTls({ socket: between, ca: ca.cert, servername: "localhost" });
  t.after(() => socket.destroy());
  await until("its first bytes are read", () => port.connections()[0]?.protocol === "tls");
  const drained = port.drain();
  await notListening(url);
  assert.equal(await ended(drained), false);
  raw.on("data", (bytes: Buffer) => between.push(bytes));
  socket.write(HTTP1_CALL);
  assert.match(await replyOver(socket, raw), /^HTTP\/1\.1 200 .*here$/s);
  await drained;
});

test("answers connections that were open to their peers when it stopped listening, although not accepted yet", async (t) => {
  const { port } = await openSlowPort(t, { drain: { accept_for: 0, grace: 5_000 } });
  const CALLERS = 100;
  const replies: Promise<string>[] = [];
  const connected: Promise<unknown>[] = [];
  for (let at = 0; at < CALLERS; at++) {
    const socket = dial(t, port);
    socket.write("GET /now HTTP/1.1\r\nhost: a\r\n\r\n");
    connected.push(once(socket, "connect"));
    replies.push(readAll(socket));
  }
  // The system opens them all in one turn, and hands over one in each.
  await Promise.all(connected);
  await port.drain();
  for (const reply of await Promise.all(replies)) assert.match(reply, /^HTTP\/1.1 200 /);
});
