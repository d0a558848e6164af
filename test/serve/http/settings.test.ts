// The settings of HTTP, each observed over a real port: timeouts, sizes and keep-alive.

import assert from "node:assert/strict";
import { connect } from "node:http2";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import type { Call, Route } from "#base/handler.ts";
import { dial, exchange, type TestPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import { openTestPort, overBothVersions, post, rawRefusal, refusal, route, text } from "./setup.ts";

// --- one test for each key of server.http ---

test("disable_http_keep_alives closes the connection after each reply", async (t) => {
  const get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  const off = await openTestPort(t, [], { disable_http_keep_alives: true });
  const reply = await exchange(dial(t, off.port), get);
  assert.match(reply, /\r\nconnection: close\r\n/i);
  const on = await openTestPort(t, []);
  const socket = dial(t, on.port);
  socket.write(get + get);
  let seen = "";
  socket.on("data", (chunk) => {
    seen += chunk;
  });
  await until("two replies", () => seen.split("HTTP/1.1 200").length === 3);
});

/** Sends text and waits until the server closes; returns how long that took and the reply. */
async function closedAfter(
  t: TestContext,
  port: TestPort,
  sent: string,
): Promise<[ms: number, seen: string]> {
  const started = performance.now();
  const seen = await exchange(dial(t, port), sent);
  return [performance.now() - started, seen];
}

test("idle_timeout ends a connection between requests", async (t) => {
  const { port } = await openTestPort(t, [], { idle_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(seen, /^HTTP\/1\.1 200/);
  assert.ok(ms > 100 && ms < 5_000, `${ms} ms`);
});

overBothVersions(
  "latency_buckets_ms: the meter receives the duration until the reply",
  async (_, serve) => {
    const slow = route({ path: "/slow", handle: () => after(60).then(() => text("")) });
    const { ask, counted } = await serve([slow]);
    await ask({ path: "/slow" });
    await until("count", () => counted.length === 1);
    assert.ok((counted[0]?.ms ?? 0) > 55, `${counted[0]?.ms} ms`);
  },
);

overBothVersions("max_header_bytes: longer headers get 431", async (_, serve) => {
  const { ask } = await serve([], { max_header_bytes: 2_000 });
  const get = (size: number) => ask({ headers: { x: "y".repeat(size) } });
  assert.equal((await get(1_500)).status, 200);
  assert.equal((await get(2_000)).status, 431);
});

test("max_header_bytes: one byte more gets 431", async (t) => {
  const { port } = await openTestPort(t, [], { max_header_bytes: 2_000 });
  const get = (size: number) =>
    `GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: ${"y".repeat(size)}\r\n\r\n`;
  assert.match(await exchange(dial(t, port), get(1_800)), /^HTTP\/1\.1 200/);
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), get(2_000))), [431, 8]);
  const long = `GET /${"y".repeat(2_100)} HTTP/1.1\r\nhost: x\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), long)), [431, 8]);
});

test("read_header_timeout ends a request whose headers stay incomplete", async (t) => {
  const { port } = await openTestPort(t, [], { read_header_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(ms > 140 && ms < 5_000, `${ms} ms`);
});

test("read_header_timeout is not extended by a sender that drips bytes", async (t) => {
  const { port } = await openTestPort(t, [], { read_header_timeout: 150 });
  const socket = dial(t, port);
  const started = performance.now();
  const drip = setInterval(() => socket.write("x"), 20);
  const seen = await exchange(socket, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(performance.now() - started < 5_000);
});

test("read_timeout ends a body that drips (HTTP/1.1)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { read_timeout: 200 });
  const socket = dial(t, port);
  const started = performance.now();
  const drip = setInterval(() => socket.write("x"), 20);
  const head = "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n";
  const seen = await exchange(socket, head);
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  const ms = performance.now() - started;
  assert.ok(ms > 190 && ms < 5_000, `${ms} ms`);
  await until("count", () => counted.length === 1);
});

overBothVersions("read_timeout does not apply to the handler", async (_, serve) => {
  const slow = route({ path: "/slow", handle: () => after(400).then(() => text("late")) });
  const { ask } = await serve([slow], { read_timeout: 100, read_header_timeout: 100 });
  assert.equal((await ask({ path: "/slow" })).body, "late");
});

overBothVersions(
  "write_timeout answers 503 for a handler that takes too long",
  async (_, serve) => {
    let pending: Call | undefined;
    const never: Route["handle"] = (_, call) => {
      pending = call;
      call.signal();
      return new Promise(() => undefined);
    };
    const { ask } = await serve(
      [
        route({ path: "/never", handle: never }),
        route({
          path: "/stream",
          stream: true,
          handle: () => after(300).then(() => text("whole")),
        }),
      ],
      { write_timeout: 150 },
    );
    assert.deepEqual(refusal(await ask({ path: "/never" })).slice(0, 2), [503, 14]);
    assert.equal(pending?.signal().aborted, true, "the handler's signal is aborted");
    assert.equal((await ask({ path: "/stream" })).body, "whole");
  },
);

test("read_timeout ends a body that drips (HTTP/2)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { read_timeout: 200 });
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const started = performance.now();
  const stream = session.request({ ":method": "POST", ":path": "/check" });
  stream.on("error", () => undefined);
  const drip = setInterval(() => stream.writable && stream.write("x"), 20);
  const status = await new Promise((resolve) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
  });
  clearInterval(drip);
  assert.equal(status, 408);
  const ms = performance.now() - started;
  assert.ok(ms > 190 && ms < 5_000, `${ms} ms`);
  assert.equal(counted.length, 1);
});

test("write_timeout ends a connection whose client does not read (HTTP/1.1)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const { port, counted } = await openTestPort(
    t,
    [
      route({ path: "/now", handle: () => big }),
      route({ path: "/later", handle: async () => big }),
    ],
    { write_timeout: 150 },
  );
  for (const [at, path] of ["/now", "/later"].entries()) {
    const socket = dial(t, port);
    socket.pause();
    const started = performance.now();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await until("end", () => counted.length === at + 1);
    assert.ok(performance.now() - started < 5_000);
  }
});

overBothVersions("timeouts of 0 mean no limit", async (_, serve) => {
  const none = { read_header_timeout: 0, read_timeout: 0, write_timeout: 0, idle_timeout: 0 };
  const slow = route({ path: "/", handle: () => after(50).then(() => text("ok")) });
  const { ask } = await serve([slow], { ...none, max_header_bytes: 0 });
  assert.equal((await ask()).body, "ok");
});

test("write_timeout resets a stream whose client does not read (HTTP/2)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const routes = [
    route({ path: "/now", handle: () => big }),
    route({ path: "/later", handle: async () => big }),
  ];
  const { port, counted } = await openTestPort(t, routes, { write_timeout: 150 });
  const session = connect(`http://${port.address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  for (const [at, path] of ["/now", "/later"].entries()) {
    const started = performance.now();
    const stream = session.request({ ":path": path });
    stream.on("error", () => undefined);
    stream.pause();
    await until("end", () => counted.length === at + 1);
    assert.ok(performance.now() - started < 5_000);
  }
});
