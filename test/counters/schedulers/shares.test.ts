// Three agents with a quota scheduler whose buckets they share, at three times the limit, in virtual time: most of the load
// arrives at one of them, and the workloads of the whole group have the shares that the policy names.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { BucketOwner } from "#counters/leases/bucket-owner.ts";
import { LeaseHolder } from "#counters/leases/lease-holder.ts";
import { LeasedBuckets } from "#counters/leases/leased-buckets.ts";
import { OwnedBuckets } from "#counters/leases/owned-buckets.ts";
import { BucketStore } from "#flow/counters/bucket-store.ts";
import type { BucketParams } from "#flow/counters/counter-engine.ts";
import type { SharedBucketEngine, SharedCounters } from "#flow/counters/shared-counters.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { shareContext } from "#flow/plan/kinds.ts";
import {
  NOTHING_LEFT,
  passed,
  quota,
  quotaRule,
  SchedulerBench,
  VirtualClock,
  workload,
} from "../../flow/schedule/kit.ts";

const PRIORITIES = { high: 4, middle: 2, low: 1 } as const;
type Name = keyof typeof PRIORITIES;
const NAMES = Object.keys(PRIORITIES) as Name[];
const SHARE: Readonly<Record<Name, number>> = { high: 4 / 7, middle: 2 / 7, low: 1 / 7 };
const RULE = quotaRule({
  workloads: NAMES.map((name) => workload(name, PRIORITIES[name])),
});

/** Usual time that a request to the owner and its reply take, ms. */
const ROUND_TRIP_MS = 1;

/** Flows per second that the policy lets through. */
const LIMIT = 100;
const WARM_UP_MS = 3_000;
/** Parts of the load, by agent. */
const SPLIT = [0.8, 0.15, 0.05] as const;

interface Setup {
  /** The agent that counts the key in process; undefined where none does. */
  readonly owner: number | undefined;
  readonly leases: boolean;
  readonly roundTripMs?: number;
  /** Tokens that a bucket holds, and gets per second. */
  readonly numbers?: readonly [capacity: number, amount: number];
}

/** Flows of one workload at one agent. */
interface Source {
  readonly agent: number;
  readonly name: Name;
  readonly perSecond: number;
}

const rounded = (share: number) => share.toFixed(2);

class Group {
  readonly clock = new VirtualClock();
  readonly benches: readonly SchedulerBench[];
  readonly chance = seededChance(11);
  #params: BucketParams | undefined;

  constructor(setup: Setup) {
    const { owner, leases, roundTripMs = ROUND_TRIP_MS, numbers = [LIMIT, LIMIT] } = setup;
    const { clock } = this;
    const context = shareContext({
      clock,
      chance: this.chance,
      maxKeys: 100,
      observer: NO_OBSERVER,
    });
    const owned = new OwnedBuckets(new BucketStore(context, [1, 2]));
    const bucketOwner = (): BucketOwner => ({
      adopt: (params) => {
        this.#params = params;
        owned.adopt(params);
      },
      ask: (value, request, answered) => {
        clock.alarm(roundTripMs / 2, () => {
          const params = this.#params ?? assert.fail();
          const reply = owned.ask(value, request, params, clock.now());
          clock.alarm(roundTripMs / 2, () => answered(reply));
        });
        return true;
      },
    });
    this.benches = SPLIT.map((_, at) => {
      const settings = { enabled: leases, duration: 1_000, max_keys: 100 };
      const engine = (): SharedBucketEngine =>
        at === owner
          ? {
              adopt: (params) => owned.adopt(params),
              take: owned.take.bind(owned),
              giveBack: () => true,
              charge: () => undefined,
              close: () => undefined,
            }
          : new LeasedBuckets(new LeaseHolder(at, clock, settings), bucketOwner());
      const sharedCounters: SharedCounters = { buckets: engine, slots: () => assert.fail() };
      const chance = seededChance(at + 100);
      return new SchedulerBench(RULE, quota(...numbers), { sharedCounters, chance }, clock);
    });
  }

  /** Sends load for so long, and returns what passed of each workload at each agent once it had settled. */
  run(sources: readonly Source[], seconds: number): readonly Readonly<Record<Name, number>>[] {
    const { clock, chance } = this;
    const counts = this.benches.map(() => ({ high: 0, middle: 0, low: 0 }));
    const begin = clock.now();
    const [warm, end] = [begin + WARM_UP_MS, begin + WARM_UP_MS + seconds * 1_000];
    const gap = (perSecond: number) => (-Math.log(1 - chance()) * 1_000) / perSecond;
    const next = sources.map(({ perSecond }) => begin + gap(perSecond));
    for (;;) {
      const at = Math.min(...next);
      if (at >= end) break;
      clock.advanceTo(at);
      const which = next.indexOf(at);
      const { agent, name, perSecond } = sources[which] ?? assert.fail();
      next[which] = at + gap(perSecond);
      const count = counts[agent] ?? assert.fail();
      this.benches[agent]?.ask({ w: name }, { patienceMs: 2_000 }, (asked) => {
        const now = clock.now();
        if (passed(asked) && now >= warm && now < end) count[name] += 1;
      });
    }
    clock.advance(10_000);
    for (const bench of this.benches) assert.deepEqual(bench.left, NOTHING_LEFT);
    return counts;
  }
}

const passedOf = (counts: readonly Readonly<Record<Name, number>>[], name: Name) =>
  counts.reduce((sum, each) => sum + each[name], 0);

/** Three times the limit, each workload alike, 80 : 15 : 5 over the agents. */
const OVERLOAD: readonly Source[] = SPLIT.flatMap((part, agent) =>
  NAMES.map((name) => ({ agent, name, perSecond: LIMIT * part })),
);

describe("three agents at three times one quota, with 80, 15 and 5 % of the load", () => {
  for (const owner of [undefined, 0, 2]) {
    for (const leases of [true, false]) {
      const where = owner === undefined ? "another machine" : `agent ${owner}`;
      it(`${where} counts${leases ? ", with leases" : ""}: shares as the weights within 15 %`, (t) => {
        const counts = new Group({ owner, leases }).run(OVERLOAD, 20);
        const total = NAMES.reduce((sum, name) => sum + passedOf(counts, name), 0);
        const agents = counts.map(({ high, middle, low }) => (high + middle + low) / total);
        const shares = NAMES.map((name) => passedOf(counts, name) / total / SHARE[name]);
        t.diagnostic(`shares ${shares.map(rounded)}, agents ${agents.map(rounded)}`);
        assert.ok(Math.abs(total / (20 * LIMIT) - 1) < 0.03, `${total} passed: the limit is used`);
        for (const share of shares) assert.ok(Math.abs(share - 1) < 0.15, `${shares}`);
        // No agent is left out, and none gets much more than its part.
        for (const [at, part] of agents.entries()) {
          const wanted = SPLIT[at] ?? 0;
          assert.ok(part > 0.6 * wanted && part < 1.6 * wanted, `${agents}`);
        }
      });
    }
  }
});

it("a quota is used up where answers take longer than tokens: one prefetches those for the flows behind", (t) => {
  const far = new Group({ owner: undefined, leases: false, roundTripMs: 100 });
  const counts = far.run(OVERLOAD, 20);
  const used = NAMES.reduce((sum, name) => sum + passedOf(counts, name), 0) / (20 * LIMIT);
  t.diagnostic(`${rounded(used)} of the limit`);
  // A flow for each answer would be at most 10 a second for each agent.
  assert.ok(used > 0.9, `${used} of the limit`);
});

/** The part that the first of two agents gets of a quota, at twice of which each of them has flows. */
function partOfFirst(setup: Pick<Setup, "owner" | "roundTripMs">, perSecond: number): number {
  const group = new Group({ ...setup, leases: true, numbers: [perSecond / 4, perSecond] });
  const sources = [0, 1].map(
    (agent) => ({ agent, name: "high", perSecond: 2 * perSecond }) as const,
  );
  const [one, other] = group.run(sources, 60);
  return (one?.high ?? 0) / ((one?.high ?? 0) + (other?.high ?? 0));
}

describe("two agents with as much to do get as much of a quota of 20 a second, wherever it is counted", () => {
  for (const roundTripMs of [2, 10]) {
    for (const owner of [undefined, 0]) {
      const where = owner === undefined ? "another machine" : "one of them";
      it(`${where} counts, ${roundTripMs} ms away`, (t) => {
        const part = partOfFirst({ owner, roundTripMs }, 20);
        t.diagnostic(rounded(part));
        assert.ok(Math.abs(part - 0.5) < 0.05, `the first got ${part}`);
      });
    }
  }
});

/** The rows of the table in `docs/counters.md`: flows per second, round trip in ms, and share in percent. */
const FAR_AGENTS = [
  ...readFileSync("docs/counters.md", "utf8").matchAll(/^ *\| (\d+) \| (\d+) ms \| (\d+) % \|$/gm),
].map(([, ...cells]) => cells.map(Number));

describe("an agent from which one that counts is far away gets less of a quota, as the documentation says", () => {
  it("for several rates and round trips", () => assert.ok(FAR_AGENTS.length >= 7));
  for (const [perSecond = 0, roundTripMs = 0, percent = 0] of FAR_AGENTS) {
    it(`${percent} % of ${perSecond} a second, ${roundTripMs} ms away`, (t) => {
      const part = 100 * (1 - partOfFirst({ owner: 0, roundTripMs }, perSecond));
      t.diagnostic(rounded(part));
      assert.ok(Math.abs(part - percent) < Math.max(1.5, percent / 10), `${part} %`);
      const elsewhere = partOfFirst({ owner: undefined, roundTripMs }, perSecond);
      assert.ok(Math.abs(elsewhere - 0.5) < 0.1, `${elsewhere} where neither counts`);
    });
  }
});

describe("agents with different workloads", () => {
  it("a flood of unimportant flows at one agent leaves the important ones of another their share", (t) => {
    for (const owner of [undefined, 0, 1]) {
      const counts = new Group({ owner, leases: true }).run(
        [
          { agent: 0, name: "high", perSecond: LIMIT / 2 },
          { agent: 1, name: "low", perSecond: LIMIT * 10 },
        ],
        20,
      );
      const high = passedOf(counts, "high") / (20 * LIMIT);
      t.diagnostic(`${rounded(high)} of the limit`);
      // All of it, which is less than its weight allows.
      assert.ok(high > 0.45, `${high} of the limit`);
      assert.ok(high + passedOf(counts, "low") / (20 * LIMIT) > 0.97, "the limit is used");
    }
  });

  it("a rare flow at one agent is not starved by the others", () => {
    const rare = { agent: 2, name: "high", perSecond: 1 } as const;
    const counts = new Group({ owner: 0, leases: true }).run(
      [...OVERLOAD.filter(({ agent }) => agent !== 2), rare],
      60,
    );
    assert.ok((counts[2]?.high ?? 0) > 45, `${counts[2]?.high} of about 60`);
  });
});
