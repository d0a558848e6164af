import assert from "node:assert/strict";
import { test } from "node:test";
import { LabelSlots } from "#flow/label.ts";
import { bindRule, newState, stateIdentity } from "#flow/plan/kinds.ts";
import type { LimiterRule, SelectorRule } from "#flow/rules.ts";
import {
  Bench,
  concurrency,
  concurrencyRule,
  rate,
  rateRule,
  samplerRule,
  share,
  testContext,
} from "./setup.ts";

function selector(
  controlPoint: string,
  labels: Readonly<Record<string, string>> = {},
): SelectorRule {
  return {
    controlPoint,
    agentGroup: "default",
    service: "any",
    matcher: { labels, list: [], expression: undefined },
  };
}

test("identity depends on what the numbers mean, not on where the component is", () => {
  const rule = rateRule({ selectors: [selector("a", { x: "1", y: "2" }), selector("b")] });
  const same: readonly LimiterRule[] = [
    { ...rule, componentId: "root.7", policyHash: "other" },
    { ...rule, selectors: [selector("b"), selector("a", { y: "2", x: "1" })] },
    { ...rule, deniedStatus: 402, onFailure: "closed" },
    { ...rule, intervalMs: 5, maxIdleMs: 5, delayInitialFill: true, lazySyncs: 9 },
  ];
  const other: readonly LimiterRule[] = [
    { ...rule, policyName: "other" },
    { ...rule, limitByLabelKey: "user" },
    { ...rule, tokensLabelKey: "user" },
    { ...rule, continuousFill: false },
    { ...rule, selectors: [selector("a", { x: "1", y: "2" })] },
    { ...rule, selectors: [selector("a", { x: "1", y: "3" }), selector("b")] },
    concurrencyRule({ selectors: rule.selectors }),
    samplerRule({ selectors: rule.selectors }),
    samplerRule({ selectors: rule.selectors, rampMode: true }),
    samplerRule({ selectors: rule.selectors, sessionLabelKey: "user" }),
  ];
  for (const one of same) assert.equal(stateIdentity(one), stateIdentity(rule));
  const all = new Set([rule, ...other].map((each) => stateIdentity(each)));
  assert.equal(all.size, other.length + 1);
});

test("state outlives the plan: buckets, last numbers, slots and shares are carried", () => {
  const context = testContext();
  const buckets = new Bench(rateRule(), rate(2, 0), context);
  buckets.take();
  const taken = buckets.take();
  const next = new Bench(
    rateRule({ policyHash: "next", componentId: "root.4" }),
    undefined,
    context,
    buckets.state,
  );
  assert.equal(next.take().dropped, true);
  assert.equal(next.limiter.component.policyHash, "next");
  assert.equal(buckets.limiter.component.policyHash, "hash");
  next.undo(taken);
  assert.equal(buckets.take().dropped, false, "old and new plan count in one bucket");
  next.limiter.decide(rate(5, 0));
  assert.equal(buckets.take().dropped, true, "new numbers cap, they do not fill");
  assert.equal(buckets.take().current, 5);

  const sampler = new Bench(samplerRule(), share(0), context);
  assert.equal(new Bench(samplerRule(), undefined, context, sampler.state).take().dropped, true);

  const slots = new Bench(concurrencyRule(), concurrency(1), context);
  const inflight = slots.take();
  const later = new Bench(concurrencyRule({ policyHash: "n" }), undefined, context, slots.state);
  assert.equal(later.take().dropped, true);
  assert.equal(later.end(inflight), true);
  assert.equal(slots.take().dropped, false);
});

test("state of another kind is refused", () => {
  const context = testContext();
  const state = newState(samplerRule(), context);
  assert.throws(
    () => bindRule(rateRule(), new LabelSlots(), state, context),
    /Sampler.*rate_limiter/,
  );
});
