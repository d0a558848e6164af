// Deadlines and cancellation of requests for JSON routes.

import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { Call } from "#base/handler.ts";
import { fakeClock } from "../../kit/clock.ts";
import { until } from "../../kit/until.ts";
import { JSON_TYPE, overBothVersions, post, refusal, route, text } from "./setup.ts";

overBothVersions(
  "grpc-timeout sets the deadline, and a request that takes longer gets 504",
  async (_, serve) => {
    const clock = fakeClock();
    const left: number[] = [];
    let pending: Call | undefined;
    const routes = [
      route({
        path: "/ask",
        handle: (_, call) => {
          left.push(call.deadline - clock.now());
          return text("");
        },
      }),
      route({
        path: "/wait",
        handle: (_, call) => {
          pending = call;
          call.signal();
          return new Promise(() => undefined);
        },
      }),
    ];
    const { ask: client } = await serve(routes, {}, clock);
    const ask = (path: string, timeout: string) =>
      client({ path, headers: { "grpc-timeout": timeout } });
    await client({ path: "/ask" });
    for (const timeout of ["1H", "2M", "3S", "4000m", "5000000u", "20000000n"])
      await ask("/ask", timeout);
    const wanted = [Number.POSITIVE_INFINITY, 3_600_000, 120_000, 3_000, 4_000, 5_000, 20];
    assert.deepEqual(left, wanted);
    for (const bad of ["", "1", "m", "1.5S", "-1S", "123456789m", "1s", "1 S"]) {
      assert.deepEqual(refusal(await ask("/ask", bad)).slice(0, 2), [400, 3], bad);
    }
    assert.deepEqual(refusal(await ask("/ask", "0m")).slice(0, 2), [504, 4]);
    const waiting = ask("/wait", "50m");
    await until("the handler waits", () => pending !== undefined);
    clock.advance(50);
    assert.deepEqual(refusal(await waiting).slice(0, 2), [504, 4]);
    assert.equal(pending?.signal().aborted, true);
  },
);

overBothVersions(
  "a request that ended normally leaves no alarm and no aborted signal",
  async (_, serve) => {
    const clock = fakeClock();
    const signals: AbortSignal[] = [];
    const alarms: number[] = [];
    const later = (method: "GET" | "POST") =>
      route({
        method,
        path: "/later",
        handle: async (_, call) => {
          signals.push(call.signal());
          alarms.push(clock.alarms);
          await turn();
          alarms.push(clock.alarms);
          return text("made");
        },
      });
    const { ask, counted } = await serve([later("GET"), later("POST")], {}, clock);
    // Over HTTP/1.1 the POST takes the fast path, the GET goes through Node's server.
    for (const [at, method] of (["POST", "GET"] as const).entries()) {
      const body = method === "POST" ? "{}" : undefined;
      const headers = { "grpc-timeout": "1S", ...(body !== undefined && JSON_TYPE) };
      assert.equal(
        (await ask({ method, path: "/later", headers, ...(body && { body }) })).status,
        200,
      );
      await until("count", () => counted.length === at + 1);
      const [before = 0, waiting = 0] = alarms.splice(0);
      assert.equal(waiting, before + 2, "alarms for the deadline and for write_timeout");
      assert.equal(clock.alarms, before, method);
    }
    clock.advance(2_000);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, false],
    );
  },
);

overBothVersions("aborts the signal when the caller cancels", async (t, serve, { cancel }) => {
  let pending: Call | undefined;
  const { port, counted } = await serve([
    route({
      path: "/wait",
      handle: (_, call) => {
        pending = call;
        call.signal();
        return new Promise(() => undefined);
      },
    }),
  ]);
  const go = await cancel(t, port, "/wait");
  await until("request", () => pending !== undefined);
  assert.equal(pending?.signal().aborted, false);
  go();
  await until("abort", () => pending?.signal().aborted === true);
  await until("count", () => counted.length === 1);
  assert.equal(counted[0]?.status, 0);
});

overBothVersions(
  "counts a caller that cancels in the middle of its body, without calling the handler",
  async (t, serve, { cancel }) => {
    let calls = 0;
    const handle = () => {
      calls++;
      return text("");
    };
    const { port, counted } = await serve([{ ...post, handle }]);
    const go = await cancel(t, port, "/check", 900);
    go();
    await until("count", () => counted.length === 1);
    assert.deepEqual([counted[0]?.status, counted[0]?.route, calls], [0, "/check", 0]);
  },
);
