// Complaints of users about other adaptive limits, one simulation in virtual time for each thread. None of it happens here.

import assert from "node:assert/strict";
import { test } from "node:test";
import { adaptiveLimit } from "./limits.ts";
import { goodput, latency, run, type Second } from "./upstream.ts";

const refused = (seconds: readonly Second[]) =>
  seconds.reduce((sum, { refused: each }) => sum + each, 0);
const limits = (seconds: readonly Second[]) => seconds.map(({ limit }) => limit);
const busy = { servers: 50, serviceMs: 100, rate: 750 };

test("envoy#18152: bursts over a load far below the limit are never refused, while nothing is probed", () => {
  // 20 ms at 30 flows/s: less than one flow in flight on average, in bursts of 10.
  const phase = () => ({ servers: 50, serviceMs: 20, rate: 30, burst: 10 });
  const seconds = run({ limit: adaptiveLimit({ start: 30 }), seconds: 600, phase });
  assert.equal(refused(seconds), 0);
  assert.ok(seconds.every(({ limit }) => limit >= 30));
});

test("envoy#14997: a time in which flows seem to take no time at all does not pin the limit to its floor", () => {
  const phase = (second: number) =>
    second < 20 ? { servers: 50, serviceMs: 0.001, rate: 200 } : busy;
  const seconds = run({ limit: adaptiveLimit(), seconds: 120, phase });
  const done = goodput(seconds.slice(50));
  assert.ok(done >= 0.95, `goodput is ${done.toFixed(3)} of the capacity`);
});

test("envoy#38338: latency that does not depend on the limit leaves the limit as it is", () => {
  // From the second minute on, something behind the limit delays each flow by half a second.
  const phase = (second: number) =>
    second < 60 ? busy : { ...busy, servers: 500, rate: 750, delayMs: 500 };
  const seconds = run({ limit: adaptiveLimit(), seconds: 180, phase });
  const done = goodput(seconds.slice(90));
  assert.ok(done >= 0.95, `${done.toFixed(3)} of what is asked for is done`);
});

test("envoy#38338: a floor above the capacity keeps the limit near the floor, and a way down open", () => {
  const phase = (second: number) => (second < 60 ? { ...busy, servers: 20 } : busy);
  const seconds = run({ limit: adaptiveLimit({ min: 40, start: 40 }), seconds: 300, phase });
  // Without a latency below the capacity the queue cannot be told from the service, but it does not grow without end.
  const highest = Math.max(...limits(seconds.slice(30, 60)));
  assert.ok(highest <= 40 * 1.6 * 1.2, `the limit rose to ${highest}`);
  assert.ok(goodput(seconds.slice(90)) >= 0.95);
});

test("envoy#46532: the floor is a floor only, however low: nothing is refused for the sake of a measurement", () => {
  const phase = () => ({ servers: 50, serviceMs: 100, rate: 400 });
  const seconds = run({ limit: adaptiveLimit({ min: 1 }), seconds: 600, phase });
  const late = seconds.slice(30);
  assert.ok(refused(late) / late.length < 0.4, `${refused(late)} flows were refused`);
});

test("concurrency-limits#35: a few flows that are much faster than the others do not become the measure", () => {
  // Nine flows of ten take twenty times as long as the tenth.
  const slow = { share: 0.9, times: 20 };
  const seconds = run({ limit: adaptiveLimit(), seconds: 120, slow, phase: () => busy });
  const done = goodput(seconds.slice(30));
  assert.ok(done >= 0.95, `goodput is ${done.toFixed(3)} of the capacity`);
});

test("concurrency-limits#165: in hours of overload the baseline does not grow until nothing is limited", () => {
  const limit = adaptiveLimit();
  const phase = () => ({ servers: 10, serviceMs: 100, rate: 130 });
  const seconds = run({ limit, seconds: 7_200, phase });
  for (const part of [seconds.slice(30, 600), seconds.slice(6_600)]) {
    assert.ok(Math.max(...limits(part)) <= 30, `the limit rose to ${Math.max(...limits(part))}`);
  }
  const { highestLatency = 0 } = limit.slots.adaptive(7_200_000) ?? {};
  assert.ok(highestLatency < 130, `the baseline is ${highestLatency} ms`);
});

test("concurrency-limits#176: flows that fail at once are not taken for fast ones", () => {
  // For a minute the upstream fails whatever would have to wait.
  const phase = (second: number) => (second >= 60 && second < 120 ? { ...busy, queue: 0 } : busy);
  const limit = adaptiveLimit();
  const seconds = run({ limit, seconds: 180, phase });
  assert.ok(Math.max(...limits(seconds.slice(60))) <= 120);
  assert.ok(goodput(seconds.slice(60, 120)) >= 0.9);
  assert.ok(goodput(seconds.slice(121)) >= 0.93, `${goodput(seconds.slice(121))}`);
  assert.ok(latency(seconds.slice(150), 0.99) < 600);
});

test("concurrency-limits#134: an overload of a fifth does not raise the limit a little in each step for ever", () => {
  const phase = () => ({ servers: 20, serviceMs: 100, rate: 240 });
  const seconds = run({ limit: adaptiveLimit(), seconds: 1_800, phase });
  const late = limits(seconds.slice(1_200));
  assert.ok(Math.max(...late) <= 50, `the limit rose to ${Math.max(...late)}`);
  assert.ok(goodput(seconds.slice(30)) >= 0.95);
});

test("a limit that nobody reaches does not grow", () => {
  const seconds = run({
    limit: adaptiveLimit(),
    seconds: 300,
    phase: () => ({ servers: 50, serviceMs: 100, rate: 30 }),
  });
  assert.ok(Math.max(...limits(seconds)) <= 25);
  assert.equal(refused(seconds.slice(30)), 0);
});

test("without flows the limit returns to its start", () => {
  const phase = (second: number) =>
    second < 60 ? { ...busy, servers: 200, rate: 3_000 } : { ...busy, rate: 1e-9 };
  const seconds = run({ limit: adaptiveLimit(), seconds: 60 + 30 + 600, phase });
  const at = limits(seconds);
  const high = at[70] ?? 0;
  assert.ok(high > 150, `the limit was ${high}`);
  assert.ok(Math.abs((at[60 + 30 + 60] ?? 0) - (20 + (high - 20) / 2)) <= 5);
  assert.equal(at.at(-1), 20);
});

test("an upstream that hangs: the limit falls to its floor as slots expire, and recovers", () => {
  const phase = (second: number) => (second >= 60 && second < 120 ? { ...busy, lost: 1 } : busy);
  const seconds = run({ limit: adaptiveLimit({}, 2_000), seconds: 180, phase });
  assert.equal(seconds[118]?.limit, 4);
  assert.ok(goodput(seconds.slice(150)) >= 0.95);
});

test("ends that get lost now and then teach nothing", () => {
  const seconds = run({
    limit: adaptiveLimit({}, 2_000),
    seconds: 120,
    phase: () => ({ ...busy, lost: 0.01 }),
  });
  const done = goodput(seconds.slice(30));
  assert.ok(done >= 0.9, `goodput is ${done.toFixed(3)} of the capacity`);
});

test("where nobody reports ends, the limit stays at its start", () => {
  const seconds = run({
    limit: adaptiveLimit({}, 2_000),
    seconds: 60,
    phase: () => ({ ...busy, lost: 1 }),
  });
  assert.ok(seconds.every(({ limit }) => limit === 20));
});
