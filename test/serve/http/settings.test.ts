// The settings of HTTP, each observed over a real port: timeouts, sizes and keep-alive.

import assert from "node:assert/strict";
import { connect } from "node:http2";
import { test } from "node:test";
import type { Call, Route } from "#base/handler.ts";
import { fakeClock } from "../../kit/clock.ts";
import { dial, exchange } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import {
  heldRoute,
  openTestPort,
  overBothVersions,
  post,
  rawRefusal,
  refusal,
  route,
  text,
} from "./setup.ts";

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

/** No timeout but the one under test, so that nothing else ends what it should end. */
const NO_TIMEOUTS = { read_header_timeout: 0, read_timeout: 0, write_timeout: 0, idle_timeout: 0 };

test("idle_timeout ends a connection between requests", async (t) => {
  const { port } = await openTestPort(t, [], { ...NO_TIMEOUTS, idle_timeout: 150 });
  const seen = await exchange(dial(t, port), "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(seen, /^HTTP\/1\.1 200/);
});

overBothVersions(
  "latency_buckets_ms: the meter receives the duration until the reply",
  async (_, serve) => {
    const clock = fakeClock();
    const handle = async () => {
      clock.advance(60);
      return text("");
    };
    const { ask, counted } = await serve([route({ path: "/slow", handle })], {}, clock);
    await ask({ path: "/slow" });
    await until("count", () => counted.length === 1);
    assert.equal(counted[0]?.ms, 60);
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
  const { port } = await openTestPort(t, [], { ...NO_TIMEOUTS, read_header_timeout: 150 });
  const seen = await exchange(dial(t, port), "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  assert.deepEqual(rawRefusal(seen), [408, 4]);
});

test("read_header_timeout is not extended by a sender that drips bytes", async (t) => {
  const { port } = await openTestPort(t, [], { ...NO_TIMEOUTS, read_header_timeout: 150 });
  const socket = dial(t, port);
  const drip = setInterval(() => socket.write("x"), 20);
  const seen = await exchange(socket, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
});

test("read_timeout ends a body that drips (HTTP/1.1)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { ...NO_TIMEOUTS, read_timeout: 200 });
  const socket = dial(t, port);
  const drip = setInterval(() => socket.write("x"), 20);
  const head = "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n";
  const seen = await exchange(socket, head);
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  await until("count", () => counted.length === 1);
});

overBothVersions("read_timeout does not apply to the handler", async (t, serve, { cancel }) => {
  const slow = heldRoute("/slow", "late");
  const timeouts = { read_timeout: 100, read_header_timeout: 100 };
  const { ask, port, counted } = await serve([slow.route, post], timeouts);
  const late = ask({ path: "/slow" });
  await slow.begun;
  // A request whose body never comes begins later and is refused: the time is over for both.
  await cancel(t, port, "/check", 900);
  await until("the other is refused", () => counted.length === 1);
  assert.equal(counted[0]?.route, "/check");
  slow.release();
  assert.equal((await late).body, "late");
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
    const stream = heldRoute("/stream", "whole", { stream: true });
    const routes = [route({ path: "/never", handle: never }), stream.route];
    const { ask } = await serve(routes, { write_timeout: 150 });
    const whole = ask({ path: "/stream" });
    await stream.begun;
    // Asked later, and refused: the time is over for both.
    assert.deepEqual(refusal(await ask({ path: "/never" })).slice(0, 2), [503, 14]);
    assert.equal(pending?.signal().aborted, true, "the handler's signal is aborted");
    stream.release();
    assert.equal((await whole).body, "whole");
  },
);

test("read_timeout ends a body that drips (HTTP/2)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { ...NO_TIMEOUTS, read_timeout: 200 });
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const stream = session.request({ ":method": "POST", ":path": "/check" });
  stream.on("error", () => undefined);
  const drip = setInterval(() => stream.writable && stream.write("x"), 20);
  const status = await new Promise((resolve) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
  });
  clearInterval(drip);
  assert.equal(status, 408);
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
    { ...NO_TIMEOUTS, write_timeout: 150 },
  );
  for (const [at, path] of ["/now", "/later"].entries()) {
    const socket = dial(t, port);
    socket.pause();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await until("end", () => counted.length === at + 1);
  }
});

overBothVersions("timeouts of 0 mean no limit", async (_, serve) => {
  const clock = fakeClock();
  const slow = heldRoute("/", "ok");
  const { ask } = await serve([slow.route], { ...NO_TIMEOUTS, max_header_bytes: 0 }, clock);
  const reply = ask();
  await slow.begun;
  // Longer than any default.
  clock.advance(60_000);
  slow.release();
  assert.equal((await reply).body, "ok");
});

test("write_timeout resets a stream whose client does not read (HTTP/2)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const routes = [
    route({ path: "/now", handle: () => big }),
    route({ path: "/later", handle: async () => big }),
  ];
  const timeouts = { ...NO_TIMEOUTS, write_timeout: 150 };
  const { port, counted } = await openTestPort(t, routes, timeouts);
  const session = connect(`http://${port.address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  for (const [at, path] of ["/now", "/later"].entries()) {
    const stream = session.request({ ":path": path });
    stream.on("error", () => undefined);
    stream.pause();
    await until("end", () => counted.length === at + 1);
  }
});
