// An agent that follows a controller through the bytes in the store: numbers change from tick to tick, and counts
// survive every change.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { follow } from "#agent/rules/follow.ts";
import { seededChance } from "#base/chance.ts";
import type { CircuitDecision } from "#circuit/decision.ts";
import { grantOf, Pending, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { AgentConfig, JsonObject } from "#policy/compiled.ts";
import { memoryStore } from "#store/memory.ts";
import type { Op } from "#store/store.ts";
import { COMPLETE } from "#sync/keys.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { fakeClock } from "../../kit/clock.ts";
import { flowOf, recordingObserver } from "../../kit/sluice/flow.ts";
import { memoryLog, silentLog } from "../../kit/sluice/log.ts";

const OWNER = { componentId: "root.0", agentGroups: ["default"] } as const;
const HERE = { control_point: "here", agent_group: "default", service: "any" };

const configOf = (kind: AgentConfig["kind"], message: AgentConfig["message"]): AgentConfig => ({
  kind,
  name: OWNER.componentId,
  agentGroups: OWNER.agentGroups,
  message,
});
const RATE = configOf("rate_limiter", {
  selectors: [HERE],
  parameters: { interval: "1s", continuous_fill: true, limit_by_label_key: "user" },
});
const SLOTS = configOf("concurrency_limiter", {
  selectors: [HERE],
  parameters: { max_inflight_duration: "60s" },
});
const samplerOf = (ramp: boolean) =>
  configOf("sampler", {
    parameters: { selectors: [HERE], session_label_key: "user", ramp_mode: ramp },
  });

const rate = (
  bucketCapacity: number,
  fillAmount: number,
  passThrough = false,
): CircuitDecision => ({
  ...OWNER,
  kind: "rate_limiter",
  bucketCapacity,
  fillAmount,
  passThrough,
});
const slots = (maxConcurrency: number, passThrough = false): CircuitDecision => ({
  ...OWNER,
  kind: "concurrency_limiter",
  maxConcurrency,
  passThrough,
});
const share = (acceptPercentage: number): CircuitDecision => ({
  ...OWNER,
  kind: "sampler",
  acceptPercentage,
  passThroughLabelValues: [],
});

/** The entry that a controller adds to a removal. */
const COMPLETED: Op = { kind: "put", key: COMPLETE, value: new Uint8Array() };

interface Ends {
  after(end: () => Promise<void>): void;
}

/** A controller's half of the store, and an agent on the other. */
async function house(t: Ends, config: AgentConfig, hash = "h1") {
  const store = memoryStore();
  const clock = fakeClock();
  const world = { clock, chance: seededChance(5), observer: recordingObserver(), maxKeys: 10_000 };
  const book = new Rulebook("default", world);
  const flowController = createFlowController(book, world);
  const stop = new AbortController();
  const log = memoryLog("trace");
  let reached = 0;
  let refused = 0;
  let seen = Promise.withResolvers<void>();
  const { ready, ended } = follow({
    store,
    group: "default",
    book,
    clock,
    signal: stop.signal,
    log,
    kept: () => undefined,
    applied(revision, trouble) {
      reached = revision;
      refused += trouble.rejected.size;
      seen.resolve();
      seen = Promise.withResolvers();
    },
  });
  t.after(async () => {
    stop.abort();
    await ended;
    await store.close();
    assert.equal(refused, 0);
  });
  await ready;
  const commit = async (entries: ReadonlyMap<string, Uint8Array | undefined>) => {
    const ops = [...entries].map(
      ([key, value]): Op =>
        value === undefined ? { kind: "delete", key } : { kind: "put", key, value },
    );
    const confirmed = ops.some(({ kind }) => kind === "delete") ? [...ops, COMPLETED] : ops;
    const revision = (await store.commit(confirmed)) ?? 0;
    while (reached < revision) await seen.promise;
  };
  const ask = (user = "ann"): Verdict => {
    const verdict = flowController.judge(flowOf({ claims: { user } }));
    assert.ok(!(verdict instanceof Pending));
    return verdict;
  };
  await commit(configEntries({ name: "p", hash, configs: [config] }));
  return {
    clock,
    ask,
    lines: log.lines,
    /** Another version of the policy, whose numbers are not there yet. */
    edit: (next: string) => commit(configEntries({ name: "p", hash: next, configs: [config] })),
    decide: (decision: CircuitDecision, version = hash) =>
      commit(decisionEntries({ name: "p", hash: version }, decision)),
    /** The policy goes. */
    remove: async () => {
      const entries = configEntries({ name: "p", hash, configs: [config] });
      await commit(new Map([...entries.keys()].map((key) => [key, undefined])));
    },
    /** The controller takes its decision away. */
    withdraw: async (decision: CircuitDecision) => {
      const entries = decisionEntries({ name: "p", hash }, decision);
      await commit(new Map([...entries.keys()].map((key) => [key, undefined])));
    },
    passes: (n: number, user?: string) =>
      Array.from({ length: n }, () => ask(user)).filter(({ accepted }) => accepted).length,
    /** Users of a thousand that pass. */
    passing: () =>
      Array.from({ length: 1_000 }, (_, at) => `user-${at}`).filter((user) => ask(user).accepted),
    end({ decisions }: Verdict) {
      const [decision] = decisions;
      const grant = decision && grantOf(decision);
      assert.ok(grant);
      const { key: label, id: requestId, amount: tokens, ...owner } = grant;
      const ended = flowController.end([{ ...owner, policyHash: hash, label, requestId, tokens }]);
      assert.ok(!(ended instanceof Pending));
      return ended[0]?.returned;
    },
  };
}

test("rules and numbers that arrive are told at debug, with the revision of their write; equal numbers at trace", async (t) => {
  const { decide, edit, remove, lines } = await house(t, RATE);
  await edit("h2");
  await decide(rate(10, 0), "h2");
  await decide(rate(10, 0), "h2");
  await decide(rate(20, 0), "h2");
  await remove();
  const { componentId } = rate(10, 0);
  const told = lines.flatMap(({ level, message, fields }) => {
    if (message === "the changes are in force") return [];
    const { policy, hash, revision, before, after, numbers, ...more } = fields;
    assert.equal(policy, "p");
    const capacity = [before, after, numbers].map((each) => Object(each).bucketCapacity);
    const { kind, component_id, ...parts } = more;
    if (message !== "rules arrived")
      assert.deepEqual([kind, component_id], ["rate_limiter", componentId]);
    return [[level, message, hash, revision, message === "rules arrived" ? parts : capacity]];
  });
  const none = undefined;
  assert.deepEqual(told, [
    ["debug", "rules arrived", "h1", 1, { added: [componentId], rules: 1 }],
    ["debug", "rules arrived", "h2", 2, { changed: [componentId], rules: 1 }],
    ["debug", "numbers arrived", "h2", 3, [none, 10, none]],
    ["trace", "numbers renewed", "h2", 4, [none, none, 10]],
    ["debug", "numbers arrived", "h2", 5, [10, 20, none]],
    ["debug", "rules arrived", "h2", 6, { removed: [componentId], rules: 1 }],
  ]);
});

test("rate limiter: when capacity and fill change, tokens that were taken stay taken", async (t) => {
  const { decide, passes, clock } = await house(t, RATE);
  await decide(rate(10, 0));
  assert.equal(passes(6), 6);
  await decide(rate(20, 0));
  assert.equal(passes(10), 4, "more room is no refill");
  await decide(rate(20, 5));
  assert.equal(passes(10), 0, "a new fill counts from now");
  clock.advance(1_000);
  await decide(rate(20, 1));
  clock.advance(1_000);
  assert.equal(passes(10), 6, "five of the old second, one of the new");
  assert.equal(passes(30, "bob"), 20, "others have buckets of their own");
});

test("rate limiter: a lower capacity caps the bucket, and raising it again gives no tokens back", async (t) => {
  const { decide, passes } = await house(t, RATE);
  await decide(rate(10, 0));
  assert.equal(passes(2), 2);
  await decide(rate(3, 0));
  assert.equal(passes(1), 1);
  await decide(rate(10, 0));
  assert.equal(passes(10), 2);
});

test("rate limiter: after it was open and is closed again, tokens taken before are still taken", async (t) => {
  const { decide, withdraw, passes } = await house(t, RATE);
  await decide(rate(10, 0));
  assert.equal(passes(8), 8);
  for (const open of [rate(10, 0, true), rate(Number.NaN, 0)]) {
    await decide(open);
    assert.equal(passes(50), 50);
    await decide(rate(10, 0));
    assert.equal(passes(1), 1, "one of the two that are left");
  }
  await withdraw(rate(10, 0));
  assert.equal(passes(50), 50);
  await decide(rate(10, 0));
  assert.equal(passes(5), 0);
});

test("rate limiter: whatever changes, no more requests pass than the highest capacity plus all fills", async () => {
  const moves = fc.array(
    fc.record({
      capacity: fc.integer({ min: 0, max: 20 }),
      fill: fc.integer({ min: 0, max: 20 }),
      asks: fc.integer({ min: 0, max: 40 }),
      ms: fc.integer({ min: 0, max: 1_500 }),
    }),
    { minLength: 1, maxLength: 15 },
  );
  await fc.assert(
    fc.asyncProperty(moves, async (all) => {
      const ends: (() => Promise<void>)[] = [];
      const after = (end: () => Promise<void>) => void ends.push(end);
      const { decide, passes, clock } = await house({ after }, RATE);
      let passed = 0;
      let filled = 0;
      for (const { capacity, fill, asks, ms } of all) {
        await decide(rate(capacity, fill));
        passed += passes(asks);
        clock.advance(ms);
        filled += (fill * ms) / 1_000;
      }
      for (const end of ends) await end();
      const most = Math.max(...all.map(({ capacity }) => capacity));
      return passed <= most + filled + 1e-6;
    }),
    { numRuns: 60 },
  );
});

test("rate limiter: editing the policy between two decisions changes no bucket", async (t) => {
  const { decide, edit, passes } = await house(t, RATE);
  await decide(rate(10, 0));
  assert.equal(passes(7), 7);
  await edit("h2");
  assert.equal(passes(1), 1, "by the last numbers until its own arrive");
  await decide(rate(12, 0), "h2");
  assert.equal(passes(10), 2);
});

test("concurrency limiter: when the limit changes, requests in flight stay counted", async (t) => {
  const { decide, ask, end, passes } = await house(t, SLOTS);
  await decide(slots(3));
  const held = [ask(), ask(), ask()];
  assert.equal(passes(1), 0);
  await decide(slots(1));
  assert.equal(end(held[0] ?? ask()), true);
  assert.equal(end(held[1] ?? ask()), true);
  assert.equal(passes(1), 0, "one is in flight, and one may be");
  await decide(slots(4));
  assert.equal(passes(9), 3);
  await decide(slots(4, true));
  assert.equal(passes(9), 9);
  await decide(slots(4));
  assert.equal(passes(1), 0, "the four are still in flight");
  assert.equal(end(held[2] ?? ask()), true);
  assert.equal(passes(9), 1);
});

test("sampler: the same users pass at the same share, and more of them at a higher one", async (t) => {
  const { decide, passing } = await house(t, samplerOf(false));
  const at = async (percentage: number) => {
    await decide(share(percentage));
    return new Set(passing());
  };
  const low = await at(10);
  const high = await at(40);
  assert.ok(low.size > 50 && low.size < 150, `${low.size}`);
  assert.ok(high.size > 330 && high.size < 470, `${high.size}`);
  assert.ok([...low].every((user) => high.has(user)));
  assert.deepEqual(await at(10), low);
});

test("load ramp: closed before its first step; climbs, holds and falls back for the same users", async (t) => {
  const { decide, withdraw, edit, passing } = await house(t, samplerOf(true));
  assert.equal(passing().length, 0);
  const steps: Set<string>[] = [];
  for (const percentage of [0, 20, 40, 60, 80]) {
    await decide(share(percentage));
    const step = new Set(passing());
    assert.ok(
      [...(steps.at(-1) ?? [])].every((user) => step.has(user)),
      "every user who passed still passes as the share grows",
    );
    steps.push(step);
  }
  assert.equal(steps[0]?.size, 0);
  await decide(share(80));
  assert.deepEqual(new Set(passing()), steps[4], "held");
  await edit("h2");
  assert.deepEqual(new Set(passing()), steps[4], "an edit is no fall");
  await decide(share(40), "h2");
  assert.deepEqual(new Set(passing()), steps[2], "fell back to who was in before");
  await decide(share(100), "h2");
  assert.equal(passing().length, 1_000);
  await withdraw(share(100));
  assert.equal(passing().length, 0, "without a decision no user passes");
});

test("a rule that is refused, or runs without a part, is reported until its key is written again", async (t) => {
  const store = memoryStore();
  const clock = fakeClock();
  const world = { clock, chance: seededChance(5), observer: recordingObserver(), maxKeys: 10 };
  const book = new Rulebook("default", world);
  const stop = new AbortController();
  const reports: string[][] = [];
  let seen = Promise.withResolvers<void>();
  const { ready, ended } = follow({
    store,
    group: "default",
    book,
    clock,
    signal: stop.signal,
    log: silentLog(),
    kept: () => undefined,
    applied(_, { rejected, partial, added }) {
      const names = (keys: Iterable<string>) => [...keys].map((key) => key.split("/")[0]).join();
      reports.push([names(rejected.keys()), names(partial.keys()), names(added)]);
      seen.resolve();
      seen = Promise.withResolvers();
    },
  });
  t.after(async () => {
    stop.abort();
    await ended;
    await store.close();
  });
  await ready;
  const selectors = [{ control_point: "ingress", agent_group: "default", service: "any" }];
  const rego = { module: "package p\nx = 1", labels: { x: { telemetry: true } } };
  const entries = (parts: JsonObject) =>
    configEntries({
      name: "p",
      hash: "h",
      configs: [
        {
          kind: "classifiers",
          name: "0",
          agentGroups: ["default"],
          message: { selectors, ...parts },
        },
      ],
    });
  const commit = async (ops: readonly Op[]) => {
    const next = seen.promise;
    await store.commit(ops);
    await next;
  };
  const puts = (all: ReadonlyMap<string, Uint8Array>) =>
    [...all].map(([key, value]): Op => ({ kind: "put", key, value }));
  const limiter = "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0";
  await commit([
    ...puts(entries({ rego })),
    { kind: "put", key: limiter, value: new TextEncoder().encode("no message") },
  ]);
  const other = limiter.replace("root.0", "root.9");
  // Another batch: faults of other keys persist and are not reported as added again.
  await commit([{ kind: "put", key: other, value: new TextEncoder().encode("nor this") }]);
  await commit([
    ...puts(entries({})),
    { kind: "delete", key: limiter },
    { kind: "delete", key: other },
    COMPLETED,
  ]);
  assert.deepEqual(reports.slice(1), [
    ["rate_limiter", "classifiers", "rate_limiter,classifiers"],
    ["rate_limiter,rate_limiter", "classifiers", "rate_limiter"],
    ["", "", ""],
  ]);
});

test("a large batch is decoded in several turns of the event loop and comes into force whole", async () => {
  const store = memoryStore();
  const count = 1_500;
  const ops = Array.from({ length: count }, (_, at): readonly Op[] => {
    const config = { ...RATE, name: `root.${at}` };
    const entries = configEntries({ name: "p", hash: "h", configs: [config] });
    return [...entries].map(([key, value]) => ({ kind: "put", key, value }));
  }).flat();
  assert.equal(ops.length, count);
  const observer = recordingObserver();
  const context = { clock: fakeClock(), chance: seededChance(1), observer, maxKeys: 10 };
  const book = new Rulebook("default", context);
  const stop = new AbortController();
  const sizes: number[] = [];
  const { ready, ended } = follow({
    store,
    group: "default",
    book,
    clock: context.clock,
    signal: stop.signal,
    log: silentLog(),
    kept: () => undefined,
    applied: () => void sizes.push(book.rules.size),
  });
  await ready;
  let turns = 0;
  const { plan } = book;
  const commit = store.commit(ops);
  while (sizes.length < 2) {
    assert.equal(book.rules.size, 0);
    assert.equal(book.plan, plan);
    turns += 1;
    await new Promise((resolve) => setImmediate(resolve));
  }
  await commit;
  // A turn judges, or finds the states of, 32 rules at most.
  assert.ok(turns >= (2 * count) / 32, `${turns} turns`);
  assert.deepEqual(sizes, [0, count]);
  stop.abort();
  await ended;
});
