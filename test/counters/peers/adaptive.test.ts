// The agent that counts a key holds its adaptive limit, and learns from the flows of all agents of the group.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OwnedLimiters } from "#counters/peers/owned-limiters.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { goodput, type Limit, run } from "../../flow/counters/adaptive/upstream.ts";
import { fakeClock } from "../../kit/clock.ts";

const NAME = { policyName: "policy", name: "limiter" };
const PARAMS = {
  max: 1_000,
  maxInflightMs: 60_000,
  adaptive: { min: 4, max: 1_000, start: 20, tolerance: 1.5 },
};

/** One key at its owner. Flows come from three agents in turn; each adds so many ms to the way of an end. */
function atOwner(delays: readonly number[]) {
  const owned = new OwnedLimiters(
    { clock: fakeClock(), observer: NO_OBSERVER, maxKeys: 10 },
    [1, 2],
  );
  owned.close();
  const { slots } = owned;
  const limiter = slots.plan(NAME);
  const key = { limiter, lo: 1, hi: 1 };
  let asked = 0;
  const late: { readonly at: number; readonly id: string }[] = [];
  const arrive = (now: number) => {
    late.sort((a, b) => a.at - b.at);
    while (late[0] !== undefined && late[0].at <= now) {
      const { at, id } = late.shift() ?? { at: now, id: "" };
      slots.end({ key, id, lifeMs: PARAMS.maxInflightMs, unused: false }, at);
    }
  };
  const limit: Limit = {
    take(now) {
      arrive(now);
      const id = `slot ${asked}`;
      const delay = delays[asked++ % delays.length] ?? 0;
      if (slots.take(key, 1, id, PARAMS, now).outcome !== "granted") return undefined;
      return (end) => void late.push({ at: end + delay, id });
    },
    now: (at) => limiter.limits.limit(1, 1, PARAMS.adaptive, at),
  };
  return { limit, limiter };
}

test("three agents, one of them slow: the owner's limit keeps the upstream busy, and does not grow without end", () => {
  const { limit, limiter } = atOwner([1, 1, 60]);
  const phase = () => ({ servers: 50, serviceMs: 100, rate: 750 });
  const seconds = run({ limit, seconds: 120, phase });
  const settled = seconds.slice(30);
  assert.ok(goodput(settled) >= 0.95, `goodput is ${goodput(settled).toFixed(3)}`);
  // A third of the flows holds its slots for 60 ms longer.
  assert.ok(settled.every(({ limit: each }) => each <= 150));
  const { keys, lowestLatency = 0 } = limiter.limits.summary(120_000) ?? {};
  assert.equal(keys, 1);
  assert.ok(lowestLatency > 100 && lowestLatency < 150, `the baseline is ${lowestLatency}`);
});

test("slots that were not used, as those that other limiters refused, teach nothing", () => {
  const owned = new OwnedLimiters(
    { clock: fakeClock(), observer: NO_OBSERVER, maxKeys: 10 },
    [1, 2],
  );
  owned.close();
  const { slots } = owned;
  const limiter = slots.plan(NAME);
  const key = { limiter, lo: 1, hi: 1 };
  for (let at = 0; at < 10_000; at++) {
    const id = `slot ${at}`;
    slots.take(key, 1, id, PARAMS, at);
    slots.end({ key, id, lifeMs: PARAMS.maxInflightMs, unused: at % 10 !== 0 }, at + 1);
  }
  assert.equal(limiter.limits.summary(10_000)?.lowestLatency, 1);
  for (let at = 20_000; at < 30_000; at++) {
    const id = `slot ${at}`;
    slots.take(key, 1, id, PARAMS, at);
    slots.end({ key, id, lifeMs: PARAMS.maxInflightMs, unused: true }, at + 500);
  }
  assert.equal(limiter.limits.summary(30_000)?.highestLatency, 1);
});
