// Estimates that are settled when their flow ends: the true cost, refunds, flows whose end nobody reports, and the bound
// of the sum of all costs.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Reservations } from "#flow/check/reservations.ts";
import { NO_DETAIL, Pending, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { SettlingLimiter } from "#flow/limit/limiter.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import {
  type LimiterNumbers,
  type LimiterRule,
  type SettlementRule,
  UNSETTLED_MODES,
} from "#flow/rules.ts";
import { fakeClock } from "../../kit/clock.ts";
import { componentOf, decisionOf, flowOf } from "../../kit/sluice/flow.ts";
import { concurrency, concurrencyRule, rate, rateRule } from "../limit/setup.ts";
import { quota, quotaRule, schedulerRule } from "../schedule/kit.ts";

const EVERYWHERE = [
  {
    controlPoint: "here",
    agentGroup: "default",
    service: "any",
    matcher: { labels: {}, list: [], expression: undefined },
  },
];

function settlement(over: Partial<SettlementRule> = {}): SettlementRule {
  return { timeoutMs: 10_000, unsettled: "keep", refundStatuses: [], ...over };
}

/** Room for so many estimates, and flows of one token of these policies. */
function reservationsOf(most: number) {
  const clock = fakeClock();
  const seen: string[] = [];
  const observer = {
    ...NO_OBSERVER,
    anomaly: (what: string) => void seen.push(what),
    settled: ({ policyName }: { policyName: string }, how: string, difference: number) =>
      void seen.push(`${policyName} ${how} ${difference}`),
  };
  const reservations = new Reservations({ clock, chance: seededChance(1), observer }, most);
  return {
    clock,
    seen,
    reservations,
    open(...policies: readonly string[]): string {
      const limiters = policies.map((policyName) => ({
        component: componentOf({ policyName }),
        settlement: settlement(),
        settle() {},
      }));
      const decisions = limiters.map(({ component }) =>
        decisionOf(component, { grantId: "", detail: { ...NO_DETAIL, consumed: 1 } }),
      );
      const known = limiters.map((limiter) => [limiter.component, limiter] as const);
      return reservations.open(decisions, new Map(known) as never);
    },
  };
}

/** An agent with these limiters, which never fill by themselves unless their numbers say so. */
function agentWith(...limiters: readonly [LimiterRule, LimiterNumbers][]) {
  return agentFrom(1, ...limiters);
}

function agentFrom(seed: number, ...limiters: readonly [LimiterRule, LimiterNumbers][]) {
  const clock = fakeClock();
  const anomalies: string[] = [];
  const settled: [string, string, number][] = [];
  const observer = {
    ...NO_OBSERVER,
    anomaly: (what: string) => void anomalies.push(what),
    settled: ({ componentId }: { componentId: string }, how: string, difference: number) =>
      void settled.push([componentId, how, difference]),
  };
  const context = { clock, chance: seededChance(seed), observer, maxKeys: 100 };
  const book = new Rulebook("default", context);
  const rules = new Map<string, LimiterRule>();
  const numbers = new Map<string, LimiterNumbers>();
  for (const [at, [rule, given]] of limiters.entries()) {
    const componentId = `root.${at}`;
    rules.set(componentId, { ...rule, componentId, selectors: EVERYWHERE });
    numbers.set(componentId, { ...given, componentId });
  }
  assert.deepEqual(book.apply({ rules, numbers }), []);
  const controller = createFlowController(book, context);
  const check = (labels: Record<string, string> = {}): Verdict => {
    const verdict = controller.judge(flowOf({ claims: labels }));
    assert.ok(!(verdict instanceof Pending));
    return verdict;
  };
  return {
    clock,
    anomalies,
    settled,
    book,
    controller,
    check,
    /** Tokens of the first limiter that a flow sees before it takes any. */
    left(labels: Record<string, string> = {}): number {
      const [decision] = check({ ...labels, cost: "0" }).decisions;
      assert.ok(decision !== undefined && "remaining" in decision.detail);
      return decision.detail.remaining;
    },
    end(verdict: Verdict, cost?: number, status = 200): boolean {
      const { reservationId } = verdict;
      return controller.settle({ reservationId, cost, status }) === "settled";
    },
  };
}

const COSTLY = { tokensLabelKey: "cost", intervalMs: 1_000 } as const;
const NEVER_FILLED = rate(100, 0);

/** By default, generated lists have ten elements at most: too few for buckets to run dry. */
const LONG = { maxLength: 200, size: "max" } as const;

describe("settlement", () => {
  it("gives back what the flow did not need, and takes what it needed more", () => {
    const agent = agentWith([rateRule({ ...COSTLY, settlement: settlement() }), NEVER_FILLED]);
    const cheap = agent.check({ cost: "30" });
    assert.notEqual(cheap.reservationId, "");
    assert.equal(agent.left(), 70);
    assert.equal(agent.end(cheap, 10), true);
    assert.equal(agent.left(), 90);
    const dear = agent.check({ cost: "30" });
    assert.equal(agent.end(dear, 50), true);
    assert.equal(agent.left(), 40);
    const right = agent.check({ cost: "5" });
    agent.end(right);
    assert.equal(agent.left(), 35);
    assert.deepEqual(agent.settled, [
      ["root.0", "committed", -20],
      ["root.0", "committed", 20],
      ["root.0", "committed", 0],
    ]);
  });

  it("leaves a debt that is filled before another flow passes", () => {
    const rule = rateRule({ ...COSTLY, settlement: settlement() });
    const agent = agentWith([rule, rate(10, 10)]);
    agent.end(agent.check({ cost: "10" }), 30);
    // 20 are owed, and ten come each second.
    agent.clock.advance(2_900);
    assert.equal(agent.check({ cost: "10" }).accepted, false);
    agent.clock.advance(100);
    assert.equal(agent.check({ cost: "10" }).accepted, true);
  });

  it("happens once: a second end changes nothing, nor does one that is too late", () => {
    const agent = agentWith([rateRule({ ...COSTLY, settlement: settlement() }), NEVER_FILLED]);
    const flow = agent.check({ cost: "30" });
    assert.equal(agent.end(flow, 10), true);
    assert.equal(agent.end(flow, 0), false);
    assert.equal(agent.end(flow, 90), false);
    assert.equal(agent.left(), 90);
    const late = agent.check({ cost: "30" });
    agent.clock.advance(10_000);
    assert.equal(agent.end(late, 0), false);
    assert.equal(agent.left(), 60);
    assert.deepEqual(agent.settled.at(-1), ["root.0", "unsettled", 0]);
    const unnamed = { reservationId: "", cost: 1, status: 0 };
    assert.equal(agent.controller.settle(unnamed), "unknown");
  });

  it("refunds by status class and by status, and nothing else", () => {
    const refundStatuses = ["5xx", "429"];
    const rule = rateRule({ ...COSTLY, settlement: settlement({ refundStatuses }) });
    for (const [status, left] of [
      [200, 60],
      [404, 60],
      [428, 60],
      [429, 100],
      [500, 100],
      [599, 100],
      [0, 60],
    ] as const) {
      const agent = agentWith([rule, NEVER_FILLED]);
      agent.end(agent.check({ cost: "30" }), 40, status);
      assert.equal(agent.left(), left, `status ${status}`);
    }
  });

  it("refunds flows whose end nobody reports, where the policy says so", () => {
    const rule = rateRule({ ...COSTLY, settlement: settlement({ unsettled: "refund" }) });
    const agent = agentWith([rule, NEVER_FILLED]);
    agent.check({ cost: "30" });
    agent.clock.advance(5_000);
    agent.check({ cost: "20" });
    agent.clock.advance(4_999);
    assert.equal(agent.left(), 50);
    agent.clock.advance(1);
    assert.equal(agent.left(), 80);
    agent.clock.advance(5_000);
    assert.equal(agent.left(), 100);
    assert.deepEqual(agent.settled, [
      ["root.0", "unsettled_refunded", -30],
      ["root.0", "unsettled_refunded", -20],
    ]);
  });

  it("moves all limiters of a flow together, and only those that settle", () => {
    const keyed = { ...COSTLY, limitByLabelKey: "user", settlement: settlement() };
    const agent = agentWith(
      [rateRule(keyed), NEVER_FILLED],
      [rateRule(COSTLY), NEVER_FILLED],
      [
        quotaRule(schedulerRule({ tokensLabelKey: "cost" }), { settlement: settlement() }),
        quota(100, 0),
      ],
    );
    const flow = agent.check({ cost: "30", user: "a" });
    agent.end(flow, 5);
    const { decisions } = agent.check({ cost: "1", user: "a" });
    const remaining = decisions.map(({ detail }) => ("remaining" in detail ? detail.remaining : 0));
    assert.deepEqual(remaining, [94, 69, 94]);
    assert.deepEqual(agent.settled, [
      ["root.0", "committed", -25],
      ["root.2", "committed", -25],
    ]);
  });

  it("lets a flow pass that waits for tokens which come back", () => {
    const rule = quotaRule(schedulerRule({ tokensLabelKey: "cost" }), { settlement: settlement() });
    const agent = agentWith([rule, quota(100, 0.001)]);
    const first = agent.check({ cost: "100" });
    const waiting = agent.controller.judge(flowOf({ claims: { cost: "40" }, deadline: 1e12 }));
    assert.ok(waiting instanceof Pending);
    let passed: boolean | undefined;
    waiting.whenSettled(
      ({ accepted }) => {
        passed = accepted;
      },
      () => assert.fail(),
    );
    assert.equal(passed, undefined);
    agent.end(first, 10);
    agent.clock.advance(1);
    assert.equal(passed, true);
  });

  it("charges flows at their end that are estimated to cost nothing", () => {
    const keyed = { tokensLabelKey: "cost" } as const;
    for (const [rule, numbers] of [
      [rateRule({ ...COSTLY, settlement: settlement() }), NEVER_FILLED],
      [quotaRule(keyed, { settlement: settlement() }), quota(100, 0)],
    ] as const) {
      const agent = agentWith([rule, numbers]);
      const flow = agent.check({ cost: "0" });
      assert.notEqual(flow.reservationId, "");
      agent.end(flow, 40);
      const [decision] = agent.check({ cost: "1" }).decisions;
      assert.ok(decision !== undefined && "remaining" in decision.detail);
      assert.equal(decision.detail.remaining, 59);
    }
  });

  it("reserves nothing for refused flows, and where no limiter settles", () => {
    const plain = agentWith([rateRule(COSTLY), NEVER_FILLED]);
    assert.equal(plain.check({ cost: "5" }).reservationId, "");
    const slots = agentWith([concurrencyRule(), concurrency(5)]);
    assert.equal(slots.check().reservationId, "");
    const agent = agentWith([rateRule({ ...COSTLY, settlement: settlement() }), NEVER_FILLED]);
    const refused = agent.check({ cost: "101" });
    assert.equal(refused.accepted, false);
    assert.equal(refused.reservationId, "");
    assert.equal(agent.controller.reservations, 0);
  });

  it("gives back to buckets that have moved to another version of the policy", () => {
    const rule = rateRule({ ...COSTLY, settlement: settlement() });
    const agent = agentWith([rule, NEVER_FILLED]);
    const flow = agent.check({ cost: "30" });
    const next = { ...rule, policyHash: "next", componentId: "root.7", selectors: EVERYWHERE };
    const refused = agent.book.apply({
      rules: new Map([
        ["root.0", undefined],
        ["root.7", next],
      ]),
      numbers: new Map([
        ["root.7", { ...NEVER_FILLED, policyHash: "next", componentId: "root.7" }],
      ]),
    });
    assert.deepEqual(refused, []);
    assert.equal(agent.left(), 70);
    agent.end(flow, 0);
    assert.equal(agent.left(), 100);
  });

  it("gives each limiter of a flow the time of its own policy", () => {
    const quick = settlement({ timeoutMs: 1_000, unsettled: "refund" });
    const agent = agentWith(
      [rateRule({ ...COSTLY, settlement: quick }), NEVER_FILLED],
      [rateRule({ ...COSTLY, settlement: settlement({ timeoutMs: 5_000 }) }), NEVER_FILLED],
    );
    const flow = agent.check({ cost: "30" });
    assert.equal(agent.controller.reservations, 2);
    agent.clock.advance(1_000);
    assert.deepEqual(agent.settled, [["root.0", "unsettled_refunded", -30]]);
    assert.equal(agent.controller.reservations, 1);
    agent.clock.advance(3_999);
    assert.equal(agent.end(flow, 10), true);
    assert.deepEqual(agent.settled.slice(1), [["root.1", "committed", -20]]);
    assert.equal(agent.end(flow, 10), false);
    assert.equal(agent.controller.reservations, 0);
    const both = agent.check({ cost: "8" });
    assert.equal(agent.end(both, 3), true);
    assert.deepEqual(agent.settled.slice(2), [
      ["root.0", "committed", -5],
      ["root.1", "committed", -5],
    ]);
  });

  it("ends an estimate of a short time in its time, also while one of a long time is open", () => {
    const agent = agentWith(
      [rateRule({ ...COSTLY, settlement: settlement({ timeoutMs: 5_000 }) }), NEVER_FILLED],
      [rateRule({ ...COSTLY, settlement: settlement({ timeoutMs: 1_000 }) }), NEVER_FILLED],
    );
    agent.check({ cost: "30" });
    agent.clock.advance(1_000);
    assert.deepEqual(agent.settled, [["root.1", "unsettled", 0]]);
    agent.clock.advance(4_000);
    assert.deepEqual(agent.settled.slice(1), [["root.0", "unsettled", 0]]);
  });

  it("knows ids that another agent has made from those that it does not know any more", () => {
    const agents = [1, 2].map((seed) => {
      const limiter: [LimiterRule, LimiterNumbers] = [
        rateRule({ ...COSTLY, settlement: settlement() }),
        NEVER_FILLED,
      ];
      return agentFrom(seed, limiter);
    });
    const [one, other] = agents;
    assert.ok(one !== undefined && other !== undefined);
    const { reservationId } = one.check({ cost: "30" });
    const end = { reservationId, cost: 10, status: 200 };
    assert.equal(other.controller.settle(end), "elsewhere");
    // It has made some itself by then, or none.
    other.check();
    assert.equal(other.controller.settle(end), "elsewhere");
    assert.equal(one.left(), 70);
    assert.equal(one.controller.settle(end), "settled");
    assert.equal(one.controller.settle(end), "unknown");
    assert.equal(one.controller.settle({ ...end, reservationId: "made up" }), "unknown");
  });

  it("is bounded: further flows cost what they took, which is counted", () => {
    const all = reservationsOf(8);
    const ids = Array.from({ length: 5 }, () => all.open("a"));
    assert.deepEqual(ids.map(Boolean), [true, true, true, true, false]);
    assert.deepEqual(all.seen, ["a no_room 0", "reservations_full"]);
    assert.equal(all.reservations.count, 4);
    assert.equal(new Set(ids).size, 5);
    all.clock.advance(10_000);
    assert.equal(all.reservations.count, 0);
    assert.ok(all.open("a") !== "");
  });

  it("is bounded for a flow of many limiters, too", () => {
    for (const policies of [Array(16).fill("a"), Array.from({ length: 16 }, (_, at) => `p${at}`)]) {
      const all = reservationsOf(4);
      all.open(...policies);
      assert.ok(all.reservations.count <= 4);
    }
  });

  it("keeps room for other policies where one has too many flows to settle", () => {
    const all = reservationsOf(12);
    const flood = () => {
      let taken = 0;
      while (all.open("a") !== "") taken++;
      return taken;
    };
    assert.equal(flood(), 6);
    const ids = Array.from({ length: 3 }, () => all.open("b"));
    assert.ok(ids.every((id) => id !== ""));
    // Room of its own that ends goes to whoever has less.
    assert.equal(flood(), 0);
    for (const id of ids) all.reservations.settle({ reservationId: id, cost: 1, status: 0 });
    assert.equal(all.reservations.count, 6);
    assert.ok(all.open("c") !== "");
    // A flow of both is settled where there is room.
    all.seen.length = 0;
    assert.ok(all.open("a", "b") !== "");
    assert.deepEqual(all.seen, ["a no_room 0", "reservations_full"]);
  });

  it("ends a thousand reservations in one turn, and the others in the next ones", () => {
    const rings: (() => void)[] = [];
    const alarm = (_ms: number, ring: () => void) => {
      rings.push(ring);
      return () => undefined;
    };
    const clock = Object.assign(fakeClock(), { alarm });
    const all = new Reservations({ clock, chance: seededChance(1), observer: NO_OBSERVER });
    const component = componentOf();
    const decision = decisionOf(component, { grantId: "", detail: { ...NO_DETAIL, consumed: 1 } });
    const limiter = { component, settlement: settlement() } as unknown as SettlingLimiter;
    for (let at = 0; at < 2_500; at++) all.open([decision], new Map([[component, limiter]]));
    clock.advance(10_000);
    const left = () => {
      rings.pop()?.();
      return all.count;
    };
    assert.deepEqual([left(), left(), left()], [1_500, 500, 0]);
    assert.equal(rings.length, 0);
  });

  it("keeps the sum of all costs within the limit and what flows in progress turn out to cost more", () => {
    const CAPACITY = 100;
    const PER_SECOND = 2;
    const step = fc.oneof(
      fc.record({
        do: fc.constant("check" as const),
        estimate: fc.integer({ min: 1, max: 40 }),
        cost: fc.integer({ min: 0, max: 80 }),
      }),
      fc.record({ do: fc.constant("end" as const), which: fc.nat() }),
      fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 3_000 }) }),
    );
    const property = fc.property(fc.array(step, LONG), (steps) => {
      const rule = rateRule({ ...COSTLY, settlement: settlement({ timeoutMs: 4_000 }) });
      const agent = agentWith([rule, rate(CAPACITY, PER_SECOND)]);
      const open: { verdict: Verdict; estimate: number; cost: number }[] = [];
      const started = agent.clock.now();
      let spent = 0;
      let inProgress = 0;
      let most = 0;
      for (const each of steps) {
        if (each.do === "pass") agent.clock.advance(each.ms);
        else if (each.do === "check") {
          const { estimate, cost } = each;
          const verdict = agent.check({ cost: String(estimate) });
          if (!verdict.accepted) continue;
          open.push({ verdict, estimate, cost });
          spent += estimate;
          inProgress += Math.max(0, cost - estimate);
          most = Math.max(most, inProgress);
        } else {
          const [ended] = open.splice(each.which % Math.max(1, open.length), 1);
          if (ended === undefined) continue;
          const { verdict, estimate, cost } = ended;
          inProgress -= Math.max(0, cost - estimate);
          if (agent.end(verdict, cost)) spent += cost - estimate;
          assert.equal(agent.end(verdict, 0), false);
        }
        const filled = ((agent.clock.now() - started) * PER_SECOND) / 1_000;
        assert.ok(spent <= CAPACITY + filled + most + 1e-6);
      }
    });
    fc.assert(property, { numRuns: 300 });
  });

  it("leaves in the bucket exactly what a model says, whatever ends, is refunded, or never ends", () => {
    const CAPACITY = 100;
    const PER_MS = 0.002;
    const TIMEOUT = 4_000;
    const step = fc.oneof(
      fc.record({ do: fc.constant("check" as const), estimate: fc.integer({ min: 1, max: 40 }) }),
      fc.record({
        do: fc.constant("end" as const),
        which: fc.nat(),
        cost: fc.option(fc.integer({ min: 0, max: 80 }), { nil: undefined }),
        status: fc.constantFrom(0, 200, 503),
      }),
      fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 3_000 }) }),
    );
    const steps = fc.array(step, LONG);
    const property = fc.property(fc.constantFrom(...UNSETTLED_MODES), steps, (unsettled, all) => {
      const own = settlement({ timeoutMs: TIMEOUT, unsettled, refundStatuses: ["5xx"] });
      const agent = agentWith([
        rateRule({ ...COSTLY, settlement: own }),
        rate(CAPACITY, PER_MS * 1_000),
      ]);
      let tokens = CAPACITY;
      const add = (more: number) => {
        tokens = Math.min(CAPACITY, tokens + more);
      };
      let open: { verdict: Verdict; estimate: number; left: number }[] = [];
      const ended: Verdict[] = [];
      const pass = (ms: number) => {
        let passed = 0;
        // They end in the order in which they began.
        for (const flow of open.filter(({ left }) => left <= ms)) {
          add((flow.left - passed) * PER_MS);
          passed = flow.left;
          if (unsettled === "refund") add(flow.estimate);
          ended.push(flow.verdict);
        }
        add((ms - passed) * PER_MS);
        open = open.flatMap((flow) => (flow.left <= ms ? [] : [{ ...flow, left: flow.left - ms }]));
        agent.clock.advance(ms);
      };
      for (const each of all) {
        if (each.do === "pass") pass(each.ms);
        else if (each.do === "check") {
          const { estimate } = each;
          // Sums of fractions differ in their last bits.
          if (Math.abs(tokens - estimate) < 1e-6) continue;
          const verdict = agent.check({ cost: String(estimate) });
          assert.equal(verdict.accepted, tokens > estimate, `${tokens} tokens`);
          if (!verdict.accepted) continue;
          tokens -= estimate;
          open.push({ verdict, estimate, left: TIMEOUT });
        } else if (open.length > 0) {
          const [flow] = open.splice(each.which % open.length, 1);
          assert.ok(flow !== undefined);
          const { cost = flow.estimate, status } = each;
          assert.equal(agent.end(flow.verdict, each.cost, status), true);
          add(flow.estimate - (status === 503 ? 0 : cost));
          ended.push(flow.verdict);
        }
        for (const verdict of ended.slice(-3)) assert.equal(agent.end(verdict, 0, 503), false);
        assert.equal(agent.controller.reservations, open.length);
      }
    });
    fc.assert(property, { numRuns: 200 });
  });
});
