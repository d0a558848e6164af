// Flows with a label value that is too long for the regular expression of a rule: what becomes of them by the kind of the
// rule and by its failure mode, and that other flows are judged as always.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { FAILURE_MODES } from "#base/failure-mode.ts";
import { Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { ScheduledFlow } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type {
  ClassifierRule,
  LimiterNumbers,
  LimiterRule,
  MatcherRule,
  Rule,
  SelectorRule,
} from "#flow/rules.ts";
import { fakeClock } from "../../kit/clock.ts";
import { flowOf, recordingObserver, requestOf } from "../../kit/sluice/flow.ts";
import {
  concurrency,
  concurrencyRule,
  rate,
  rateRule,
  samplerRule,
  share,
} from "../limit/setup.ts";
import { load, loadRule, quota, quotaRule, workload } from "../schedule/kit.ts";

/** Tests values of up to 2 730 characters. */
const COSTLY: MatcherRule = {
  labels: {},
  list: [],
  expression: { kind: "label_matches", label: "x", regex: "a[ab]{20}[0-9]" },
};
const EVERY: MatcherRule = { labels: {}, list: [], expression: undefined };

const MATCHES = { x: `a${"b".repeat(20)}1` };
const DIFFERS = { x: "ab".repeat(1_000) };
const TOO_LONG = { x: "ab".repeat(2_000) };

function selectors(matcher = COSTLY): readonly SelectorRule[] {
  return [{ controlPoint: "here", agentGroup: "default", service: "any", matcher }];
}

type Given = Rule | readonly [LimiterRule, LimiterNumbers];

function agent(...given: readonly Given[]) {
  const recorded = recordingObserver();
  const scheduled: ScheduledFlow[] = [];
  const observer = {
    ...recorded,
    scheduled: (_component: unknown, flow: ScheduledFlow) => void scheduled.push(flow),
  };
  const world = { clock: fakeClock(), chance: seededChance(1), observer, maxKeys: 100 };
  const book = new Rulebook("default", world);
  const rules = new Map<string, Rule>();
  const numbers = new Map<string, LimiterNumbers>();
  for (const [at, one] of given.entries()) {
    const componentId = `root.${at}`;
    const [rule, decided] = "kind" in one ? [one, undefined] : one;
    rules.set(`${at}`, "componentId" in rule ? { ...rule, componentId } : rule);
    if (decided !== undefined) numbers.set(`${at}`, { ...decided, componentId });
  }
  assert.deepEqual(book.apply({ rules, numbers }), []);
  const controller = createFlowController(book, world);
  return {
    anomalies: recorded.anomalies,
    scheduled,
    judge(labels: Record<string, string>): Verdict {
      const verdict = controller.judge(flowOf({ claims: labels, http: requestOf({ path: "/p" }) }));
      return verdict instanceof Pending ? assert.fail("the flow waits") : verdict;
    },
  };
}

/** Of each kind, with numbers that let flows pass, and others with which it refuses the first one. */
const KINDS: readonly (readonly [LimiterRule, LimiterNumbers, ...LimiterNumbers[]])[] = [
  [samplerRule({ rampMode: true }), share(100), share(0)],
  [samplerRule(), share(100), share(0)],
  [rateRule(), rate(9, 9), rate(0, 0)],
  [concurrencyRule(), concurrency(9), concurrency(0)],
  [quotaRule(), quota(9, 9), quota(0, 0)],
  [loadRule(), load(1)],
];

test("the failure mode of a limiter answers: it passes, refuses, or takes the rule to apply", () => {
  for (const [rule, ...all] of KINDS) {
    for (const onFailure of FAILURE_MODES) {
      const given = { ...rule, onFailure, selectors: selectors() };
      const results = all.map((numbers, which) => {
        const at = agent([given, numbers]);
        const { accepted, decisions } = at.judge(TOO_LONG);
        assert.deepEqual(at.anomalies, ["match_too_costly", "undecided"]);
        assert.equal(decisions[0]?.failure, onFailure);
        // Others are judged as always.
        assert.deepEqual(at.judge(DIFFERS).decisions, []);
        const [decision] = at.judge(MATCHES).decisions;
        assert.equal(decision?.outcome, which === 0 ? "granted" : "refused");
        assert.equal(at.anomalies.length, 2);
        return accepted;
      });
      const wanted = { open: [true, true], closed: [false, false] }[String(onFailure)];
      assert.deepEqual(
        results,
        (wanted ?? [true, false]).slice(0, all.length),
        `${rule.kind} ${onFailure}`,
      );
    }
  }
});

test("a limiter with `pass_through`, and a session that always passes, refuse nobody", () => {
  for (const onFailure of FAILURE_MODES) {
    const given = { onFailure, selectors: selectors() };
    const at = agent(
      [samplerRule({ ...given, sessionLabelKey: "who" }), share(0, ["vip"])],
      [rateRule(given), rate(0, 0, true)],
      [quotaRule({}, given), quota(0, 0, true)],
    );
    assert.equal(at.judge({ ...TOO_LONG, who: "vip" }).accepted, true, onFailure);
  }
});

test("the limiters beside one that is not tested are asked, and what they took is given back on a refusal", () => {
  const at = agent(
    [rateRule({ onFailure: "closed", selectors: selectors() }), rate(9, 9)],
    [concurrencyRule({ selectors: selectors(EVERY) }), concurrency(1)],
  );
  for (let round = 0; round < 2; round++) {
    const { accepted, reason, decisions } = at.judge(TOO_LONG);
    assert.deepEqual([accepted, reason], [false, RejectReason.rateLimited]);
    assert.deepEqual(
      decisions.map(({ outcome }) => outcome),
      ["undecided", "granted"],
    );
  }
});

test("a rule whose other conditions fail does not apply, however long the value is", () => {
  const matcher = { ...COSTLY, labels: { tier: "gold" } };
  const at = agent([rateRule({ onFailure: "closed", selectors: selectors(matcher) }), rate(9, 9)]);
  assert.deepEqual(at.judge({ ...TOO_LONG, tier: "free" }).decisions, []);
  assert.equal(at.judge({ ...TOO_LONG, tier: "gold" }).accepted, false);
  assert.equal(at.anomalies.length, 2);
});

function classifier(unreadableValue: string): ClassifierRule {
  return {
    kind: "classifier",
    policyName: "p",
    policyHash: "h",
    index: 0,
    selectors: selectors(),
    rules: [
      {
        label: "who",
        telemetry: true,
        unreadableValue,
        extractor: { kind: "from", from: "request.http.path" },
      },
    ],
  };
}

test("the labels of a classifier are unreadable, so the policy says what its limiters do", () => {
  const limit = rateRule({
    limitByLabelKey: "who",
    onMissingLabel: "refuse",
    selectors: selectors(EVERY),
  });
  for (const [unreadableValue, accepted] of [
    ["", false],
    ["nobody", true],
  ] as const) {
    const at = agent(classifier(unreadableValue), [limit, rate(1, 0)]);
    const verdict = at.judge(TOO_LONG);
    assert.equal(verdict.accepted, accepted);
    assert.equal(verdict.classifiers[0]?.unreadable, "not_tested");
    assert.deepEqual(at.anomalies, ["match_too_costly", "label_unreadable"]);
    const named = [...verdict.labels.classifierLabels()].map(({ value }) => value);
    assert.deepEqual(named, accepted ? ["nobody"] : []);
    // The limit holds for all flows with such values together.
    assert.equal(at.judge(TOO_LONG).accepted, false);
    assert.equal(at.judge(MATCHES).accepted, true);
  }
});

test("a flux meter does not measure the flow, which is counted", () => {
  const at = agent({
    kind: "flux_meter",
    policyName: "p",
    name: "meter",
    attributeKey: "x",
    buckets: { kind: "static", bounds: [1] },
    selectors: selectors(),
  });
  const measured = [MATCHES, DIFFERS, TOO_LONG].map((labels) => at.judge(labels).fluxMeters);
  assert.deepEqual(measured, [["meter"], [], []]);
  assert.deepEqual(at.anomalies, ["match_too_costly"]);
});

test("a flow belongs to the least important workload that may be its first", () => {
  const costly = (name: string, priority: number) => ({
    ...workload(name, priority),
    matcher: COSTLY,
  });
  const cases = [
    { workloads: [costly("low", 1), workload("w", 5)], byDefault: 9, wanted: "low" },
    { workloads: [costly("high", 9), workload("w", 5)], byDefault: 1, wanted: "w" },
    { workloads: [costly("high", 9), workload("other", 5)], byDefault: 7, wanted: "default" },
    { workloads: [costly("high", 9), costly("low", 2)], byDefault: 7, wanted: "low" },
    { workloads: [workload("w", 5), costly("low", 1)], byDefault: 1, wanted: "w" },
  ];
  for (const { workloads, byDefault, wanted } of cases) {
    const defaultParameters = { priority: byDefault, tokens: 1, queueTimeoutMs: undefined };
    const rule = quotaRule({ workloads, defaultParameters }, { selectors: selectors(EVERY) });
    const at = agent([rule, quota(9, 9)]);
    assert.equal(at.judge({ ...TOO_LONG, w: "w" }).accepted, true);
    const [flow] = at.scheduled;
    assert.equal(flow?.workload, wanted);
  }
});

test("the work of a check is bounded over all of its rules, and the next check begins anew", () => {
  const limiters = Array.from({ length: 40 }, (_, at) => {
    const regex = `a[ab]{20}[0-9]{${at + 1}}`;
    const matcher: MatcherRule = {
      ...EVERY,
      expression: { kind: "label_matches", label: "x", regex },
    };
    const rule = rateRule({ onFailure: "open", selectors: selectors(matcher) });
    return [rule, rate(9, 9)] as const;
  });
  const at = agent(...limiters);
  for (let round = 0; round < 2; round++) {
    at.anomalies.length = 0;
    at.judge({ x: `${round}${"ab".repeat(200)}${"1".repeat(40)}` });
    const untested = at.anomalies.filter((what) => what === "match_too_costly").length;
    // 131 072 units are 440 characters times 297 instructions.
    assert.ok(untested > 25 && untested < 40, `${untested}`);
  }
});
