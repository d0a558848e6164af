// The stages of a check, and what a row of the table of kinds needs to bring, with a kind of limiter made up for this test.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge } from "#flow/check.ts";
import { Pending, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { type KindTable, LIMITER_KINDS } from "#flow/plan/kinds.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { RateLimiterRule } from "#flow/rules.ts";
import { RAMP_STAGE, RATE_STAGE, SAMPLE_STAGE, STAGES, type Stage } from "#flow/stages.ts";
import { fakeClock } from "../kit/clock.ts";
import {
  countedIds,
  decisionOf,
  flowOf,
  planOfSteps,
  recordingObserver,
  scripted,
  stepOf,
} from "../kit/sluice/flow.ts";

const TRIAL: Stage = { ...RATE_STAGE, name: "trial", deniedStatus: 418 };

function contextOf() {
  const observer = recordingObserver();
  return { clock: fakeClock(), chance: seededChance(1), observer, nextDecisionId: countedIds() };
}

function settled(verdict: Verdict | Pending<Verdict>): Verdict {
  assert.ok(!(verdict instanceof Pending), "the verdict is not pending");
  return verdict;
}

describe("a stage", () => {
  const refused = { outcome: "refused", dropped: true } as const;

  it("refuses before the stages after it are asked: ramps, then samplers, then rate limiters", () => {
    const order = [RAMP_STAGE, SAMPLE_STAGE, RATE_STAGE];
    for (const [at, first] of order.entries()) {
      const limiters = new Map(
        order.slice(at).map((stage) => [stage, scripted("sampler", stage.name, refused)]),
      );
      const steps = STAGES.flatMap((stage) => {
        const limiter = limiters.get(stage as typeof first);
        return limiter === undefined ? [] : [stepOf(stage, [limiter])];
      });
      assert.equal(steps.length, order.length - at);
      assert.equal(settled(judge(planOfSteps(steps), flowOf(), contextOf())).reason, first.reason);
      const asked = [...limiters.values()].map(({ taken }) => taken);
      assert.deepEqual(asked, [1, ...Array.from({ length: steps.length - 1 }, () => 0)]);
    }
  });

  it("that needs a limiter for flows in ramp mode does not count those of earlier stages", () => {
    const earlier = scripted("rate_limiter", "root.0");
    const plan = planOfSteps([stepOf(RATE_STAGE, [earlier]), stepOf(RAMP_STAGE)]);
    assert.equal(settled(judge(plan, flowOf(), contextOf())).accepted, true);
    const verdict = settled(judge(plan, flowOf({ rampMode: true }), contextOf()));
    assert.deepEqual(
      [verdict.accepted, verdict.reason, earlier.undone.length],
      [false, RAMP_STAGE.reason, 1],
    );
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

  class TrialState {
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

  it("adds a kind: selected by rules, with state that outlives plans and is closed with its last rule", () => {
    const states: TrialState[] = [];
    const { ask, apply, remove } = controllerOf(
      tableWith({
        stage: TRIAL,
        meaning: () => [],
        State: TrialState,
        bind(component, _rule, _slots, state: TrialState) {
          states.push(state);
          return {
            component,
            take: () => decisionOf(component, ++state.seen > 2 ? { outcome: "refused" } : {}),
            undo: () => undefined,
            decide: () => undefined,
          };
        },
      }),
    );
    assert.deepEqual(
      [ask("ann"), ask("bob"), ask("ann")].map(({ accepted }) => accepted),
      [true, true, true],
    );
    const state = states.at(-1);
    assert.equal(state?.seen, 2);
    apply("h2");
    assert.equal(state.closed, 0);
    const { accepted, deniedStatus, decisions } = ask("ann");
    assert.deepEqual(
      [accepted, deniedStatus, decisions[0]?.component.policyHash],
      [false, 418, "h2"],
    );
    assert.deepEqual(ask("bob").decisions, []);
    remove();
    assert.equal(state.closed, 1);
  });
});
