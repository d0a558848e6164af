// Rate limiters whose tokens an engine outside of this process counts: undecided answers, and answers that come later.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { BucketParams, CounterEngine, EngineAnswer } from "#flow/counters/counter-engine.ts";
import type { Component } from "#flow/flow.ts";
import { type Decision, type Grant, grantOf, Pending } from "#flow/flow.ts";
import { LabelSlots, Labels } from "#flow/label.ts";
import { RateLimiter, RateState } from "#flow/limit/rate-limiter.ts";
import { Bench, flat, flowOf, rate, rateRule, testContext } from "./setup.ts";

/** A remote engine with scripted answers. */
class RemoteEngine implements CounterEngine<BucketParams> {
  readonly given: string[] = [];
  answer: EngineAnswer | Pending<EngineAnswer>;

  constructor(answer: EngineAnswer | Pending<EngineAnswer>) {
    this.answer = answer;
  }

  peek(): EngineAnswer {
    return UNDECIDED;
  }

  take(): EngineAnswer | Pending<EngineAnswer> {
    return this.answer;
  }

  giveBack(_value: string | undefined, _amount: number, id: string): boolean {
    this.given.push(id);
    return true;
  }
}

const UNDECIDED: EngineAnswer = {
  outcome: "undecided",
  remaining: 0,
  current: 0,
  waitMs: 0,
  id: "",
  full: false,
};

function remotely(onFailure: Component["onFailure"], engine: CounterEngine<BucketParams>) {
  const context = testContext();
  const rule = rateRule({ onFailure });
  const component = new Bench(rule).limiter.component;
  const slots = new LabelSlots();
  const state = new RateState(context, rule, "", "");
  const buckets = Object.assign(engine, { charge: () => assert.fail("nothing is settled") });
  const limiter = new RateLimiter(component, rule, slots, state, context, buckets);
  limiter.decide(rate(1, 0));
  return {
    context,
    limiter,
    take: () => {
      const labels = new Labels(slots.schema, flowOf().labels);
      const answer = limiter.take(flowOf(), labels, context.clock.now());
      return answer instanceof Pending ? answer : flat(answer);
    },
  };
}

test("an undecided engine: the failure mode answers, and the decision names it", () => {
  for (const [mode, drops] of [
    ["open", [false, false]],
    ["closed", [true, true]],
    ["local", [false, true]],
    ["last_known", [false, true]],
  ] as const) {
    const { take, context } = remotely(mode, new RemoteEngine(UNDECIDED));
    for (const dropped of drops) {
      const decision = take();
      assert.ok(!(decision instanceof Pending));
      assert.equal(decision.outcome, "undecided");
      assert.equal(decision.failure, mode);
      assert.equal(decision.dropped, dropped, mode);
      assert.equal(decision.consumed, mode !== "open" && !dropped ? 1 : 0);
    }
    assert.deepEqual(context.anomalies, ["undecided", "undecided"]);
  }
});

function grantIn(decision: Decision | Pending<Decision>): Grant {
  assert.ok(!(decision instanceof Pending));
  const grant = grantOf(decision);
  assert.ok(grant !== undefined);
  return grant;
}

test("tokens granted by the local engine go back to the local engine", () => {
  const engine = new RemoteEngine(UNDECIDED);
  const { take, limiter } = remotely("local", engine);
  for (let again = 0; again < 3; again++) {
    const decision = take();
    limiter.undo(grantIn(decision));
  }
  assert.deepEqual(engine.given, []);
  engine.answer = { outcome: "granted", remaining: 3, current: 1, waitMs: 0, id: "7", full: false };
  const real = take();
  limiter.undo(grantIn(real));
  assert.deepEqual(engine.given, ["7"]);
});

test("an engine that answers later; cancelling settles with its last answer", () => {
  const late = new Pending<EngineAnswer>(() => late.settle(UNDECIDED));
  const { take } = remotely("closed", new RemoteEngine(late));
  const answer = take();
  assert.ok(answer instanceof Pending);
  const seen: Decision[] = [];
  answer.whenSettled(
    (decision) => seen.push(decision),
    () => assert.fail(),
  );
  assert.equal(seen.length, 0);
  answer.cancel();
  assert.equal(seen[0]?.failure, "closed");
  assert.equal(seen[0]?.dropped, true);
});
