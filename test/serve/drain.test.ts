import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import type { HttpReply, Route, Service } from "#serve/handler.ts";
import { fakeClock } from "../kit/clock.ts";
import { grpcClient, type TestClient } from "../kit/grpc-client.ts";
import { dial, type Overrides, readAll, realClock, testPort, until } from "../kit/port.ts";

const message = Buffer.from("a message");

/** A port with a gRPC method and a route that answer when they are released. */
async function serving(
  t: TestContext,
  drain: NonNullable<Overrides["drain"]>,
  clock: Clock = realClock,
) {
  const waiting: (() => void)[] = [];
  const released = () => new Promise<void>((resolve) => waiting.push(resolve));
  const service: Service = {
    name: "test.Slow",
    healthNames: [],
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
  const port = await testPort(t, { services: [service], routes, clock, settings: { drain } });
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

async function ended(promise: Promise<void>): Promise<boolean> {
  const later = new Promise<boolean>((resolve) => setImmediate(() => resolve(false)));
  return Promise.race([promise.then(() => true), later]);
}

test("a drain still accepts for its time, then answers what is in hand, then ends", async (t) => {
  const clock = fakeClock();
  const drain = { accept_for: 1_000, grace: 5_000 };
  const { port, client, url, held, release } = await serving(t, drain, clock);
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
  await assert.rejects(fetch(`${url}/now`), "nobody listens any more");
  assert.equal(await ended(drained), false, "calls are in hand");
  release();
  for (const call of calls) assert.deepEqual((await call).message, message);
  assert.equal(await (await slow).text(), "here");
  await drained;
  assert.deepEqual(port.log.lines, []);
});

test("what does not end within the grace time is cut, and said", async (t) => {
  const clock = fakeClock();
  const drain = { accept_for: 0, grace: 10_000 };
  const { port, client, url, held } = await serving(t, drain, clock);
  const call = client.unary("/test.Slow/Say", message);
  const slow = assert.rejects(fetch(`${url}/slow`));
  await until("calls", () => held() === 2);
  const drained = port.drain();
  await until("alarm", () => clock.alarms > 1);
  clock.advance(9_999);
  assert.equal(await ended(drained), false);
  clock.advance(1);
  await drained;
  assert.notEqual((await call).code, 0);
  await slow;
  assert.match(port.log.lines[0]?.message ?? "", /grace/);
});

/** What a watch of the whole process's health has heard: raw replies, then "end". */
async function watched(client: TestClient): Promise<readonly string[]> {
  const heard: string[] = [];
  const call = client.serverStream("/grpc.health.v1.Health/Watch", new Uint8Array(0));
  call.on("data", (reply: Uint8Array) => heard.push(Buffer.from(reply).toString("hex")));
  call.on("end", () => heard.push("end"));
  call.on("error", () => heard.push("end"));
  await until("first health", () => heard.length === 1);
  return heard;
}

const NOT_SERVING = "0802";

for (const [when, drain, sign] of [
  ["still accepts", { accept_for: 60_000, grace: 60_000 }, NOT_SERVING],
  ["waits for calls", { accept_for: 0, grace: 60_000 }, "end"],
] as const) {
  test(`a cut while a drain ${when} ends both at once`, async (t) => {
    const { port, client, url, held } = await serving(t, drain);
    const call = client.unary("/test.Slow/Say", message);
    const slow = assert.rejects(fetch(`${url}/slow`));
    await until("calls", () => held() === 2);
    const health = await watched(client);
    const drained = port.drain();
    await until(sign, () => health.includes(sign));
    assert.equal(health.includes("end"), sign === "end");
    const started = performance.now();
    await port.cut();
    await drained;
    assert.ok(performance.now() - started < 5_000);
    assert.notEqual((await call).code, 0);
    await slow;
    await port.cut();
  });
}

test("idle and unfinished connections do not hold a drain up", async (t) => {
  const { port, client, url } = await serving(t, { accept_for: 0, grace: 30_000 });
  await (await fetch(`${url}/now`)).text();
  await client.unary("/test.Slow/Now", message);
  const silent = dial(t, port);
  const begun = dial(t, port);
  begun.write("PRI * HT");
  const idle = dial(t, port);
  let seen = "";
  idle.on("data", (chunk) => {
    seen += chunk;
  });
  idle.write("GET /now HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("reply", () => seen.endsWith("here"));
  const closed = [silent, begun].map(readAll);
  const started = performance.now();
  await port.drain();
  assert.ok(performance.now() - started < 10_000);
  assert.deepEqual(await Promise.all(closed), ["", ""]);
});

test("a call in hand when the drain begins tells its connection to close", async (t) => {
  const { port, held, release } = await serving(t, { accept_for: 0, grace: 30_000 });
  const socket = dial(t, port);
  socket.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("call", () => held() === 1);
  const drained = port.drain();
  const all = readAll(socket);
  release();
  await drained;
  assert.match(await all, /^HTTP\/1\.1 200 .*connection: close.*here$/is);
});

test("a request that is complete only after the port stopped accepting is 503", async (t) => {
  const { port, held, release } = await serving(t, { accept_for: 0, grace: 30_000 });
  const begun = dial(t, port);
  begun.write("GET /now HTTP/1.1\r\nhost: x\r\n");
  const other = dial(t, port);
  other.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("call", () => held() === 1);
  const drained = port.drain();
  const all = readAll(begun);
  begun.write("\r\n");
  assert.match(await all, /^HTTP\/1\.1 503 .*retry-after: 1\r\n.*"code":14/is);
  release();
  await drained;
});
