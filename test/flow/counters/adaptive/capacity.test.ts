// Adaptive limits in virtual time against an upstream whose capacity is known: it is used up, and flows hardly wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { adaptiveLimit } from "./limits.ts";
import { goodput, latency, type Phase, run, type Second } from "./upstream.ts";

const SERVICE_MS = 100;
/** Seconds in which the limit settles after a change. */
const SETTLED = 30;

/** The latency of an upstream that is not loaded, below which 99 % of the flows stay, ms. */
const UNLOADED_P99 = latency(
  run({
    limit: adaptiveLimit({ start: 1_000 }),
    seconds: 60,
    phase: () => ({ servers: 1_000, serviceMs: SERVICE_MS, rate: 200 }),
  }),
  0.99,
);

function assertGood(seconds: readonly Second[], what: string): void {
  const { serviceMs } = seconds[0]?.phase ?? { serviceMs: SERVICE_MS };
  const done = goodput(seconds);
  assert.ok(done >= 0.95, `${what}: goodput is ${done.toFixed(3)} of the capacity`);
  const p99 = latency(seconds, 0.99) / (UNLOADED_P99 * (serviceMs / SERVICE_MS));
  assert.ok(p99 <= 2, `${what}: p99 is ${p99.toFixed(2)} times that without load`);
}

/** The load is one and a half times the capacity all the time. */
function overloaded(servers: number, serviceMs = SERVICE_MS, of = servers): Phase {
  return { servers, serviceMs, rate: (1.5 * of * 1_000) / SERVICE_MS };
}

for (const servers of [50, 500]) {
  test(`${servers} servers: all of the capacity is used, down to a third of the servers and back`, () => {
    const third = Math.floor(servers / 3);
    const phase = (second: number) =>
      second >= 60 && second < 120 ? overloaded(third, SERVICE_MS, servers) : overloaded(servers);
    const seconds = run({ limit: adaptiveLimit(), seconds: 180, phase });
    assertGood(seconds.slice(SETTLED, 60), "at first");
    assertGood(seconds.slice(60 + SETTLED, 120), "with a third");
    assertGood(seconds.slice(120 + SETTLED), "with all again");
  });

  test(`${servers} servers: a service that takes three times as long, and a third of it again, is no queue`, () => {
    const phase = (second: number) =>
      overloaded(servers, second >= 60 && second < 120 ? 3 * SERVICE_MS : SERVICE_MS);
    const seconds = run({ limit: adaptiveLimit(), seconds: 180, phase });
    assertGood(seconds.slice(60 + SETTLED, 120), "slow");
    assertGood(seconds.slice(120 + SETTLED), "fast again");
    const lowest = Math.min(...seconds.slice(60 + 5, 120).map(({ limit }) => limit));
    assert.ok(lowest > servers / 2, `the limit fell to ${lowest}`);
  });
}

test("a service that becomes slower for minutes keeps all of its capacity", () => {
  const phase = (second: number) => overloaded(50, SERVICE_MS * (1 + second / 300));
  const seconds = run({ limit: adaptiveLimit(), seconds: 600, phase });
  for (let at = SETTLED; at < 600; at += 30) {
    assertGood(seconds.slice(at, at + 30), `from ${at} s on`);
  }
});

test("an upstream that loses one server after the other keeps what is left busy", () => {
  const phase = (second: number) => overloaded(Math.round(50 - second / 18), SERVICE_MS, 50);
  const seconds = run({ limit: adaptiveLimit(), seconds: 600, phase });
  assertGood(seconds.slice(SETTLED), "while servers leave");
});

for (const spread of [0.1, 1]) {
  test(`service times with a deviation of ${spread} times their mean`, () => {
    const seconds = run({
      limit: adaptiveLimit(),
      seconds: 90,
      spread,
      phase: () => overloaded(50),
    });
    const done = goodput(seconds.slice(SETTLED));
    assert.ok(done >= 0.95, `goodput is ${done.toFixed(3)} of the capacity`);
  });
}

test("one flow in ten that takes ten times as long as the others", () => {
  const slow = { share: 0.1, times: 10 };
  const seconds = run({ limit: adaptiveLimit(), seconds: 120, slow, phase: () => overloaded(50) });
  const done = goodput(seconds.slice(SETTLED));
  assert.ok(done >= 0.95, `goodput is ${done.toFixed(3)} of the capacity`);
});
