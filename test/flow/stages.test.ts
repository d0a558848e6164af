// The three kinds of stage, with a cache and a shadow limiter made up for these tests: what a row of the table of
// kinds needs to bring, and what the check does with it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge } from "#flow/check.ts";
import { type LookupHit, Pending, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { Lookup, Shadow } from "#flow/limit/stage-member.ts";
import { type KindTable, LIMITER_KINDS } from "#flow/plan/kinds.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { RateLimiterRule } from "#flow/rules.ts";
import {
  type LookupStage,
  type ObserveStage,
  RAMP_STAGE,
  RATE_STAGE,
  SAMPLE_STAGE,
  STAGES,
} from "#flow/stages.ts";
import { fakeClock } from "../kit/clock.ts";
import {
  componentOf,
  flowOf,
  planOfSteps,
  recordingObserver,
  scripted,
  stepOf,
} from "../kit/sluice/flow.ts";

const CACHE: LookupStage = { kind: "lookup", name: "cache" };
const TRIAL: ObserveStage = { kind: "observe", name: "trial" };

function contextOf() {
  return { clock: fakeClock(), chance: seededChance(1), observer: recordingObserver() };
}

function settled(verdict: Verdict | Pending<Verdict>): Verdict {
  assert.ok(!(verdict instanceof Pending), "the verdict is not pending");
  return verdict;
}

/** Filled when the verdict comes. */
function verdictsOf(pending: Pending<Verdict>): readonly Verdict[] {
  const verdicts: Verdict[] = [];
  pending.whenSettled(
    (verdict) => verdicts.push(verdict),
    () => assert.fail(),
  );
  return verdicts;
}

function hitOf(text: string): LookupHit {
  return { component: componentOf(), value: Buffer.from(text) };
}

function cacheOf(find: Lookup["find"]): Lookup {
  return { component: componentOf(), find, decide: () => undefined };
}

describe("a limit stage", () => {
  const refused = { outcome: "refused", dropped: true } as const;

  it("refuses before the stages after it are asked: ramps, then samplers, then rate limiters", () => {
    const order = [RAMP_STAGE, SAMPLE_STAGE, RATE_STAGE];
    for (const [at, first] of order.entries()) {
      const limiters = new Map(
        order.slice(at).map((stage) => [stage, scripted("sampler", stage.name, refused)]),
      );
      const steps = STAGES.flatMap((stage) => {
        const limiter = limiters.get(stage as typeof first);
        return limiter === undefined ? [] : [stepOf(stage, { limiters: [limiter] })];
      });
      assert.equal(steps.length, order.length - at);
      assert.equal(settled(judge(planOfSteps(steps), flowOf(), contextOf())).reason, first.reason);
      const asked = [...limiters.values()].map(({ taken }) => taken);
      assert.deepEqual(asked, [1, ...Array.from({ length: steps.length - 1 }, () => 0)]);
    }
  });

  it("that needs a limiter for flows in ramp mode does not count those of earlier stages", () => {
    const earlier = scripted("rate_limiter", "root.0");
    const plan = planOfSteps([stepOf(RATE_STAGE, { limiters: [earlier] }), stepOf(RAMP_STAGE, {})]);
    assert.equal(settled(judge(plan, flowOf(), contextOf())).accepted, true);
    const verdict = settled(judge(plan, flowOf({ rampMode: true }), contextOf()));
    assert.deepEqual(
      [verdict.accepted, verdict.reason, earlier.undone.length],
      [false, RAMP_STAGE.reason, 1],
    );
  });
});

describe("a lookup", () => {
  const refusing = scripted("rate_limiter", "root.9", { outcome: "refused", dropped: true });
  const stepsWith = (...lookups: readonly Lookup[]) => [
    stepOf(CACHE, { lookups }),
    stepOf(RATE_STAGE, { limiters: [refusing] }),
  ];

  it("ends the check with its hit, and later stages are not asked", () => {
    const before = refusing.taken;
    const plan = planOfSteps(stepsWith(cacheOf(() => hitOf("found"))));
    const verdict = settled(judge(plan, flowOf(), contextOf()));
    assert.equal(verdict.accepted, true);
    assert.equal(String(verdict.hit?.value), "found");
    assert.deepEqual(verdict.decisions, []);
    assert.equal(refusing.taken, before);
  });

  it("changes nothing with a miss", () => {
    const plan = planOfSteps(stepsWith(cacheOf(() => undefined)));
    const verdict = settled(judge(plan, flowOf(), contextOf()));
    assert.equal(verdict.accepted, false);
    assert.equal(verdict.hit, undefined);
  });

  it("keeps what earlier stages took", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const plan = planOfSteps([
      stepOf(RATE_STAGE, { limiters: [limiter] }),
      stepOf(CACHE, { lookups: [cacheOf(() => hitOf("found"))] }),
    ]);
    const verdict = settled(judge(plan, flowOf(), contextOf()));
    assert.equal(verdict.decisions.length, 1);
    assert.equal(limiter.undone.length, 0);
  });

  it("may answer later; of several hits the first in component order counts", () => {
    const slow = new Pending<LookupHit | undefined>();
    const slower = new Pending<LookupHit | undefined>();
    const plan = planOfSteps(
      stepsWith(
        cacheOf(() => slow),
        cacheOf(() => slower),
      ),
    );
    const context = contextOf();
    const pending = judge(plan, flowOf(), context);
    assert.ok(pending instanceof Pending);
    const verdicts = verdictsOf(pending);
    slower.settle(hitOf("second"));
    assert.equal(verdicts.length, 0);
    slow.settle(hitOf("first"));
    assert.equal(String(verdicts[0]?.hit?.value), "first");
    assert.equal(context.clock.alarms, 0);
  });

  it("ranks hits by component order, also when the first component answers first", () => {
    const first = new Pending<LookupHit | undefined>();
    const second = new Pending<LookupHit | undefined>();
    const plan = planOfSteps(
      stepsWith(
        cacheOf(() => first),
        cacheOf(() => second),
      ),
    );
    const pending = judge(plan, flowOf(), contextOf());
    assert.ok(pending instanceof Pending);
    const verdicts = verdictsOf(pending);
    first.settle(hitOf("first"));
    second.settle(hitOf("second"));
    assert.equal(String(verdicts[0]?.hit?.value), "first");
  });

  it("with an immediate hit spares the lookups after it", () => {
    const plan = planOfSteps(
      stepsWith(
        cacheOf(() => hitOf("found")),
        cacheOf(() => assert.fail("a lookup was asked after a hit")),
      ),
    );
    assert.equal(String(settled(judge(plan, flowOf(), contextOf())).hit?.value), "found");
  });

  it("that is late counts as a miss", () => {
    const never = new Pending<LookupHit | undefined>();
    const context = contextOf();
    const flow = flowOf({ deadline: context.clock.now() + 100 });
    const pending = judge(planOfSteps(stepsWith(cacheOf(() => never))), flow, context);
    assert.ok(pending instanceof Pending);
    const verdicts = verdictsOf(pending);
    context.clock.advance(90);
    assert.equal(verdicts[0]?.accepted, false);
    assert.deepEqual(context.observer.anomalies, ["late"]);
    never.settle(hitOf("too late"));
    assert.equal(verdicts[0]?.hit, undefined);
  });

  it("gives earlier grants back when the caller goes away while it waits", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const context = contextOf();
    const plan = planOfSteps([
      stepOf(RATE_STAGE, { limiters: [limiter] }),
      stepOf(CACHE, { lookups: [cacheOf(() => new Pending<LookupHit | undefined>())] }),
    ]);
    const pending = judge(plan, flowOf(), context);
    assert.ok(pending instanceof Pending);
    pending.cancel();
    assert.equal(limiter.undone.length, 1);
    assert.deepEqual(context.observer.anomalies, ["abandoned"]);
  });
});

describe("a shadow", () => {
  const shadowOf = (observe: Shadow["observe"]): Shadow => ({
    component: componentOf(),
    observe,
    decide: () => undefined,
  });

  it("sees the flow at its stage and changes nothing", () => {
    const seen: string[] = [];
    const shadow = shadowOf(({ controlPoint }) => seen.push(controlPoint));
    const limiter = scripted("rate_limiter", "root.0");
    const plan = planOfSteps([
      stepOf(TRIAL, { shadows: [shadow] }),
      stepOf(RATE_STAGE, { limiters: [limiter] }),
    ]);
    const verdict = settled(judge(plan, flowOf(), contextOf()));
    assert.deepEqual(seen, ["here"]);
    assert.equal(verdict.accepted, true);
    assert.equal(verdict.decisions.length, 1);
  });

  it("does not see a flow that an earlier stage refused", () => {
    let seen = 0;
    const refusing = scripted("rate_limiter", "root.0", { outcome: "refused", dropped: true });
    const plan = planOfSteps([
      stepOf(RATE_STAGE, { limiters: [refusing] }),
      stepOf(TRIAL, { shadows: [shadowOf(() => seen++)] }),
    ]);
    assert.equal(settled(judge(plan, flowOf(), contextOf())).accepted, false);
    assert.equal(seen, 0);
  });
});

describe("a row of the table of kinds", () => {
  const rule: RateLimiterRule = {
    kind: "rate_limiter",
    policyName: "p",
    policyHash: "h",
    componentId: "root.0",
    selectors: [
      {
        controlPoint: "here",
        agentGroup: "default",
        service: "any",
        matcher: { labels: { user: "ann" }, list: [], expression: undefined },
      },
    ],
    onFailure: "local",
    onMissingLabel: "pass",
    deniedStatus: 0,
    limitByLabelKey: "",
    tokensLabelKey: "",
    intervalMs: 1_000,
    continuousFill: true,
    delayInitialFill: false,
    maxIdleMs: 0,
    lazySyncs: 0,
  };

  class CacheState {
    asked = 0;
    close() {}
  }

  class ShadowState {
    seen = 0;
    closed = 0;
    close() {
      this.closed++;
    }
  }

  /** The table with the rate limiter's row replaced, and a stage for it before all others. */
  function tableWith(row: KindTable["rows"]["rate_limiter"]): KindTable {
    return { stages: [row.stage, ...STAGES], rows: { ...LIMITER_KINDS.rows, rate_limiter: row } };
  }

  function controllerOf(kinds: KindTable) {
    const context = { ...contextOf(), maxKeys: 100 };
    const book = new Rulebook("default", context, kinds);
    const apply = (policyHash: string) =>
      book.apply({ rules: new Map([["r", { ...rule, policyHash }]]), numbers: new Map() });
    assert.deepEqual(apply("h1"), []);
    const controller = createFlowController(book, context);
    const ask = (user: string) => settled(controller.judge(flowOf({ claims: { user } })));
    const remove = () => book.apply({ rules: new Map([["r", undefined]]), numbers: new Map() });
    return { ask, apply, remove };
  }

  it("adds a lookup: selected by rules, with state that outlives plans", () => {
    const { ask, apply } = controllerOf(
      tableWith({
        stage: CACHE,
        meaning: () => [],
        State: CacheState,
        bind: (component, _rule, _slots, state: CacheState) => ({
          component,
          find: () => (state.asked++ === 0 ? undefined : { component, value: Buffer.from("kept") }),
          decide: () => undefined,
        }),
      }),
    );
    assert.equal(ask("bob").hit, undefined);
    assert.equal(ask("ann").hit, undefined, "the first one misses");
    apply("h2");
    const { hit, accepted } = ask("ann");
    assert.equal(String(hit?.value), "kept");
    assert.equal(hit?.component.policyHash, "h2");
    assert.equal(accepted, true);
    assert.equal(ask("bob").hit, undefined);
  });

  it("adds a shadow, whose state is closed with the last rule that uses it", () => {
    const states: ShadowState[] = [];
    const { ask, apply, remove } = controllerOf(
      tableWith({
        stage: TRIAL,
        meaning: () => [],
        State: ShadowState,
        bind(component, _rule, _slots, state: ShadowState) {
          states.push(state);
          return { component, observe: () => state.seen++, decide: () => undefined };
        },
      }),
    );
    for (const user of ["ann", "bob", "ann"]) assert.equal(ask(user).accepted, true);
    const state = states.at(-1);
    assert.equal(state?.seen, 2);
    apply("h2");
    assert.equal(state.closed, 0);
    remove();
    assert.equal(state.closed, 1);
  });
});
