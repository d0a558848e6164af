// The timeouts of the HTTP client, and the signal that cancels a call.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { connect } from "node:net";
import { type TestContext, test } from "node:test";
import { fakeClock } from "../../kit/clock.ts";
import { child } from "../../kit/servers/child.ts";
import { until } from "../../kit/until.ts";
import { caller, fakeServer } from "../../prometheus/kit.ts";
import { fails, rawServer, silence } from "./setup.ts";

test("timeout: the shorter of the setting and the call's own applies", async (t) => {
  const server = await fakeServer(t, silence);
  for (const [timeout, timeoutMs, wanted] of [
    [2_000, 5_000, 2_000],
    [9_000, 5_000, 5_000],
    [0, 3_000, 3_000],
    [4_000, undefined, 4_000],
  ] as const) {
    const clock = fakeClock();
    const http = caller(t, { timeout }, { clock });
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    const call = http.call({ method: "GET", url: server.url, ...limit });
    const seen = server.heard.length;
    await until("the call arrives", () => server.heard.length > seen);
    clock.advance(wanted - 1);
    assert.equal(clock.alarms, 1);
    clock.advance(1);
    await fails(call, "DEADLINE_EXCEEDED", new RegExp(`no reply within ${wanted} ms`));
    assert.equal(clock.alarms, 0);
  }
  await until("connections of late calls are closed", () => server.open === 0);
});

test("timeout covers a body that never ends, and 0 sets no alarm", async (t) => {
  const server = await fakeServer(t, (_, reply) => void reply.write("half"));
  const clock = fakeClock();
  const http = caller(t, { timeout: 1_000 }, { clock });
  const call = http.call({ method: "GET", url: server.url });
  await until("the call arrives", () => server.heard.length === 1);
  clock.advance(1_000);
  await fails(call, "DEADLINE_EXCEEDED", /no reply within 1000 ms/);
  const idle = fakeClock();
  const endless = caller(t, { timeout: 0 }, { clock: idle });
  const leave = new AbortController();
  const given = endless.call({ method: "GET", url: server.url, signal: leave.signal });
  await until("the call arrives", () => server.heard.length === 2);
  assert.equal(idle.alarms, 0);
  leave.abort();
  await fails(given, "CANCELLED", /call was cancelled/);
});

test("a signal cancels a call immediately, even before it began, and its listener is removed", async (t) => {
  const server = await fakeServer(t, ({ url }, reply) => {
    if (url === "/fine") reply.setHeader("connection", "close").end();
  });
  const http = caller(t);
  const leave = new AbortController();
  const call = http.call({ method: "GET", url: server.url, signal: leave.signal });
  await until("the call arrives", () => server.heard.length === 1);
  leave.abort();
  await fails(call, "CANCELLED", /call was cancelled/);
  const calm = new AbortController();
  const given = http.call({ method: "GET", url: `${server.url}/fine`, signal: calm.signal });
  assert.equal(getEventListeners(calm.signal, "abort").length, 1);
  await given;
  assert.equal(getEventListeners(calm.signal, "abort").length, 0);
  await until("its connection is closed", () => server.open === 0);
  const late = http.call({ method: "GET", url: server.url, signal: leave.signal });
  await fails(late, "CANCELLED", /call was cancelled/);
  assert.equal(server.heard.length, 2);
});

test("response_header_timeout bounds the wait for the headers, not for the body", async (t) => {
  let finish = () => {};
  const slow = await fakeServer(t, (heard, reply) => {
    if (heard.url === "/silent") return;
    reply.write("first");
    finish = () => void reply.end(" last");
  });
  const http = caller(t, { response_header_timeout: 500 });
  const whole = http.call({ method: "GET", url: `${slow.url}/` });
  await until("the headers", () => slow.heard.length === 1);
  // It begins later, so its timeout ends later, too.
  const silent = http.call({ method: "GET", url: `${slow.url}/silent` });
  await fails(silent, "DEADLINE_EXCEEDED", /response headers timed out/);
  finish();
  assert.equal((await whole).body.toString(), "first last");
});

test("tls_handshake_timeout: a server that never completes the handshake", async (t) => {
  const mute = await rawServer(t, () => undefined);
  const http = caller(t, { tls_handshake_timeout: 50 });
  const call = http.call({ method: "GET", url: `https://127.0.0.1:${mute}/` });
  await fails(call, "DEADLINE_EXCEEDED", /connection timed out/);
});

/** A server that accepts no connection: its process is frozen, and its queue is full. */
async function deafServer(t: TestContext): Promise<number> {
  const listen = `const server = require("node:net").createServer();
    server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));`;
  const own = child(t, process.execPath, ["-e", listen]);
  await own.until("it listens", () => own.out().includes("\n"));
  const port = Number(own.out());
  await own.freeze();
  for (let at = 0; at < 8; at++) {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    t.after(() => socket.destroy());
  }
  return port;
}

const LINUX = { skip: process.platform !== "linux" };

test("network_timeout bounds the wait for a connection", LINUX, async (t) => {
  const url = `http://127.0.0.1:${await deafServer(t)}`;
  const http = caller(t, { network_timeout: 500 });
  await fails(http.call({ method: "GET", url }), "DEADLINE_EXCEEDED", /the connection timed out$/);
});
