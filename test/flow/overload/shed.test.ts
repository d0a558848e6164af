// Checks that are shed: the answer that failure modes give, how important a check is, and the checks in progress.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { CounterEngine, EngineAnswer } from "#flow/counters/counter-engine.ts";
import type { SharedBucketEngine, SharedCounters } from "#flow/counters/shared-counters.ts";
import {
  type Flow,
  Missing,
  Pending,
  RejectReason,
  type ShedCause,
  type Verdict,
} from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { LabelSource } from "#flow/label.ts";
import type { Observer } from "#flow/observer.ts";
import { type Caller, UNKNOWN_CALLER } from "#flow/overload/callers.ts";
import { OverloadGuard } from "#flow/overload/guard.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type {
  ClassifierRule,
  LimiterNumbers,
  LimiterRule,
  MatcherRule,
  Rule,
  SamplerRule,
} from "#flow/rules.ts";
import { flowOf, recordingObserver, requestOf } from "../../kit/sluice/flow.ts";
import { rate, rateRule, samplerRule } from "../limit/setup.ts";
import { quota, quotaRule, VirtualClock, workload } from "../schedule/kit.ts";

const ALL: MatcherRule = { labels: {}, list: [], expression: undefined };

function selectors(matcher: Partial<MatcherRule> = {}) {
  return [
    {
      controlPoint: "here",
      agentGroup: "default",
      service: "any",
      matcher: { ...ALL, ...matcher },
    },
  ];
}

/** Matches with a regular expression, which costs too much to be tried. */
const COSTLY: Partial<MatcherRule> = {
  expression: { kind: "label_matches", label: "path", regex: "^/a.*b$" },
};

const CLASSIFIER: ClassifierRule = {
  kind: "classifier",
  policyName: "policy",
  policyHash: "hash",
  index: 0,
  selectors: selectors(),
  rules: [
    {
      label: "made",
      telemetry: true,
      unreadableValue: "",
      extractor: { kind: "from", from: "request.http.path" },
    },
  ],
};

interface Options {
  /** As many checks are in progress elsewhere. */
  readonly busy?: number;
  readonly most?: number;
  readonly sharedCounters?: SharedCounters;
}

function agent(
  given: readonly (Rule | readonly [LimiterRule, LimiterNumbers])[],
  options: Options,
) {
  const { busy = 0, most = 1, sharedCounters } = options;
  const clock = new VirtualClock();
  const chance = seededChance(3);
  const recorded = recordingObserver();
  const shed: [string, boolean, ShedCause][] = [];
  const observer: Observer = { ...recorded, shed: (...each) => shed.push(each) };
  const world = { clock, chance, observer, maxKeys: 100, sharedCounters };
  const limits = { max_delay: 25, max_in_progress: most };
  const guard = new OverloadGuard(limits, {
    clock,
    chance,
    idle: () => clock.now(),
    waited: () => 0,
  });
  const book = new Rulebook("default", world);
  const rules = new Map<string, Rule>();
  const numbers = new Map<string, LimiterNumbers>();
  for (const [at, one] of given.entries()) {
    const [rule, decided] = "kind" in one ? [one, undefined] : one;
    const named = { ...rule, componentId: `root.${at}` };
    const placed = named.selectors.length > 0 ? named : { ...named, selectors: selectors() };
    rules.set(`${at}`, placed);
    if (decided !== undefined) numbers.set(`${at}`, { ...decided, componentId: `root.${at}` });
  }
  assert.deepEqual(book.apply({ rules, numbers }), []);
  const controller = createFlowController(book, world, guard);
  for (let at = 0; at < busy; at++) guard.begun();
  return {
    guard,
    clock,
    shed,
    observer: recorded,
    judge: (flow: Parameters<typeof flowOf>[0] = {}): Verdict | Pending<Verdict> =>
      controller.judge(flowOf(flow)),
    now(flow: Parameters<typeof flowOf>[0] = {}): Verdict {
      const verdict = controller.judge(flowOf(flow));
      return verdict instanceof Pending ? assert.fail("the flow waits") : verdict;
    },
  };
}

const OVERLOADED = { busy: 1 };

function answerOf({ accepted, reason, deniedStatus, shed }: Verdict) {
  return { accepted, reason, deniedStatus, shed };
}

const PASSES = { accepted: true, reason: RejectReason.none, deniedStatus: 0, shed: "in_progress" };

test("the failure mode of each rule answers, and the first that fails closed refuses", () => {
  const modes = { open: PASSES, local: PASSES, last_known: PASSES } as const;
  for (const [onFailure, answer] of Object.entries(modes)) {
    const rule = rateRule({ onFailure: onFailure as keyof typeof modes });
    assert.deepEqual(answerOf(agent([[rule, rate(0, 0)]], OVERLOADED).now()), answer, onFailure);
  }
  const closed = agent(
    [
      [rateRule({ onFailure: "open" }), rate(9, 9)],
      [quotaRule({}, { onFailure: "closed", deniedStatus: 509 }), quota(9, 9)],
      [rateRule({ onFailure: "closed" }), rate(9, 9)],
    ],
    OVERLOADED,
  );
  const verdict = closed.now();
  // The rate limiter is asked before the queue.
  const reason = RejectReason.rateLimited;
  assert.deepEqual(answerOf(verdict), { ...PASSES, accepted: false, reason, deniedStatus: 429 });
  const [decision] = verdict.decisions;
  assert.equal(decision?.component.componentId, "root.2");
  assert.deepEqual([decision?.outcome, decision?.failure], ["undecided", "closed"]);
  assert.equal(verdict.waitMs, 0);
  assert.deepEqual(closed.shed, [["here", false, "in_progress"]]);
  assert.equal(closed.observer.verdicts.length, 1, "it counts as a decision, too");
});

test("a ramp goes on drawing among flows that are shed, and ramp mode without a ramp refuses", () => {
  const numbers = (acceptPercentage: number) =>
    ({
      policyName: "policy",
      policyHash: "hash",
      componentId: "root.0",
      kind: "sampler",
      acceptPercentage,
      passThroughLabelValues: [],
    }) as const;
  const answers = (rule: Partial<SamplerRule>, percentage = 100, more: Rule[] = []) =>
    [true, false].map((rampMode) => {
      const ramp = samplerRule({ rampMode: true, ...rule });
      const overloaded = agent([[ramp, numbers(percentage)], ...more], OVERLOADED);
      const { accepted, reason } = overloaded.now({ rampMode, claims: { user: "ann" } });
      assert.equal(reason, accepted ? RejectReason.none : RejectReason.noMatchingRamp);
      return accepted;
    });
  const [PASS, REFUSE] = [
    [true, true],
    [false, false],
  ];
  for (const onFailure of ["local", "last_known"] as const) {
    assert.deepEqual(answers({ onFailure }, 100), PASS);
    assert.deepEqual(answers({ onFailure }, 0), REFUSE);
  }
  assert.deepEqual(answers({ onFailure: "open" }, 0), PASS);
  assert.deepEqual(answers({ onFailure: "closed" }, 100), REFUSE);
  const elsewhere = selectors({ labels: { user: "bob" } });
  assert.deepEqual(answers({ selectors: elsewhere }), [false, true], "it does not apply");
  // True if it applies, or to which session, is not known.
  assert.deepEqual(answers({ selectors: selectors(COSTLY) }), REFUSE);
  assert.deepEqual(answers({ sessionLabelKey: "made" }, 100, [CLASSIFIER]), REFUSE);
  assert.deepEqual(answers({ sessionLabelKey: "user" }), PASS);
  assert.deepEqual(answers({ sessionLabelKey: "absent", onMissingLabel: "refuse" }), REFUSE);

  const { accepted, reason } = agent([[rateRule(), rate(9, 9)]], OVERLOADED).now({
    rampMode: true,
  });
  assert.deepEqual([accepted, reason], [false, RejectReason.noMatchingRamp]);
});

test("a rule that fails closed refuses only flows that it may apply to", () => {
  const refuses = (
    matcher: Partial<MatcherRule>,
    claims: Record<string, string>,
    rules: Rule[],
  ) => {
    const rule = rateRule({ onFailure: "closed", selectors: selectors(matcher) });
    return !agent([[rule, rate(9, 9)], ...rules], OVERLOADED).now({ claims }).accepted;
  };
  assert.equal(refuses({ labels: { user: "ann" } }, { user: "ann" }, []), true);
  assert.equal(refuses({ labels: { user: "ann" } }, { user: "bob" }, []), false);
  // Neither is tried: whoever fails closed must not pass because of an overload.
  assert.equal(refuses(COSTLY, { path: "/other" }, []), true);
  assert.equal(refuses({ labels: { made: "x" } }, {}, [CLASSIFIER]), true);
  assert.equal(refuses({ labels: { made: "x" } }, {}, []), false, "nothing makes this label");
});

test("a rule that lets all flows pass refuses none", () => {
  const rule = rateRule({ onFailure: "closed" });
  assert.equal(agent([[rule, rate(9, 9, true)]], OVERLOADED).now().accepted, true);
  const queue = quotaRule({}, { onFailure: "closed" });
  assert.equal(agent([[queue, quota(9, 9, true)]], OVERLOADED).now().accepted, true);
});

test("a flow without the label of a limiter passes or is refused by on_missing_label, whatever the failure mode is", () => {
  const keyed = { limitByLabelKey: "user" } as const;
  const refuses = { ...keyed, onMissingLabel: "refuse", onFailure: "open" } as const;
  const passes = { ...keyed, onMissingLabel: "pass", onFailure: "closed" } as const;
  const counts = { ...keyed, onMissingLabel: "default_key", onFailure: "closed" } as const;
  const kinds: [Parameters<typeof agent>[0][number], boolean, boolean][] = [
    [[rateRule(refuses), rate(9, 9)], true, false],
    [[rateRule(passes), rate(9, 9)], false, true],
    [[rateRule(counts), rate(9, 9)], false, false],
    // A limiter asks for its label before it looks at its numbers.
    [[rateRule(refuses), rate(9, 9, true)], true, false],
    [[rateRule(counts), rate(9, 9, true)], true, true],
    [[quotaRule({}, refuses), quota(9, 9)], true, false],
    [[quotaRule({}, passes), quota(9, 9)], false, true],
    [samplerRule({ ...refuses, sessionLabelKey: "user" }), true, false],
    [samplerRule({ ...passes, sessionLabelKey: "user" }), false, true],
  ];
  for (const [at, [rule, withLabel, without]] of kinds.entries()) {
    const overloaded = agent([rule], OVERLOADED);
    const answers = [{ claims: { user: "ann" } }, { claims: {} }].map(
      (flow) => overloaded.now(flow).accepted,
    );
    assert.deepEqual(answers, [withLabel, without], `${at}`);
  }
  const { decisions, deniedStatus } = agent(
    [[rateRule({ ...refuses, deniedStatus: 401 }), rate(9, 9)]],
    OVERLOADED,
  ).now();
  const [decision] = decisions;
  assert.equal(deniedStatus, 401);
  assert.deepEqual(
    [decision?.outcome, decision?.missing, decision?.failure],
    ["refused", Missing.key, undefined],
  );
});

/** Every check is shed for what its caller takes. Returns what the guard was told of the callers, too. */
function shedForCost(given: Parameters<typeof agent>[0]) {
  const at = agent(given, OVERLOADED);
  const callers: Caller[] = [];
  at.guard.sheds = (_class, _now, caller = UNKNOWN_CALLER) => {
    callers.push(caller);
    return "cost";
  };
  return { ...at, callers };
}

test("limiters refuse a caller that is shed for its cost, also those that fail open", () => {
  const refused = { accepted: false, shed: "cost" };
  for (const onFailure of ["open", "local", "last_known", "closed"] as const) {
    for (const rule of [
      rateRule({ onFailure }),
      rateRule({ onFailure, selectors: selectors(COSTLY) }),
    ]) {
      const { accepted, shed, decisions } = shedForCost([[rule, rate(9, 9)]]).now();
      assert.deepEqual({ accepted, shed }, refused, onFailure);
      assert.equal(decisions[0]?.failure, "closed");
    }
    const queue = shedForCost([[quotaRule({}, { onFailure }), quota(9, 9)]]).now();
    assert.equal(queue.accepted, false, onFailure);
  }
  const accepts = (...given: Parameters<typeof agent>[0]) => shedForCost(given).now().accepted;
  assert.equal(accepts([rateRule({ onFailure: "open" }), rate(9, 9, true)]), true);
  const unkeyed = { limitByLabelKey: "user", onMissingLabel: "pass", onFailure: "open" } as const;
  assert.equal(accepts([rateRule(unkeyed), rate(9, 9)]), true);
  assert.equal(accepts(samplerRule({ onFailure: "open" })), true);
});

test("callers are told apart by the source that is described, or the peer, and by a limiter's key", () => {
  const keyed = rateRule({ limitByLabelKey: "user", selectors: selectors(COSTLY) });
  const at = shedForCost([[keyed, rate(9, 9)]]);
  const from = (address: string, user = "ann") => ({
    http: requestOf({ source: { address, port: 1 } }),
    peer: "10.0.0.1",
    claims: { user },
  });
  const flows = [
    from("10.9.0.1"),
    from("10.9.0.2"),
    from("10.9.0.1", "ben"),
    from("2001:db8::1"),
    from("2001:db8::ffff:1"),
    from("2001:db8:0:1::1"),
    { peer: "10.9.0.1", claims: { user: "ann" } },
    { claims: {} },
  ];
  for (const flow of flows) at.now(flow);
  const [first, other, ben, v6, near, far, peer, unknown] = at.callers;
  assert.deepEqual(peer, first);
  assert.deepEqual(near, v6);
  assert.deepEqual(unknown, UNKNOWN_CALLER);
  assert.equal(new Set([first, other, v6, far].map((one) => one?.source)).size, 4);
  assert.equal(ben?.source, first?.source);
  assert.notEqual(ben?.key, first?.key);
  const made = shedForCost([[rateRule({ limitByLabelKey: "made" }), rate(9, 9)], CLASSIFIER]);
  made.now({ claims: { made: "chosen" } });
  assert.equal(made.callers[0]?.key, 0, "a classifier would have to tell");
});

test("the failure mode answers where only a classifier can tell whether the flow has the label", () => {
  const keyed = { limitByLabelKey: "made" } as const;
  const passes = (rule: Partial<LimiterRule>) =>
    agent([rateRule({ ...keyed, ...rule } as object), CLASSIFIER], OVERLOADED).now().accepted;
  assert.equal(passes({ onMissingLabel: "refuse", onFailure: "open" }), true);
  assert.equal(passes({ onMissingLabel: "pass", onFailure: "closed" }), false);
});

test("sessions that always pass a sampler pass it while checks are shed", () => {
  const numbers = (passThroughLabelValues: string[]) =>
    ({
      policyName: "policy",
      policyHash: "hash",
      componentId: "root.0",
      kind: "sampler",
      acceptPercentage: 100,
      passThroughLabelValues,
    }) as const;
  const rule = samplerRule({ sessionLabelKey: "user", onFailure: "closed" });
  const accepts = (sampler: SamplerRule, user: string, classifiers: Rule[] = []) =>
    agent([[sampler, numbers(["vip"])], ...classifiers], OVERLOADED).now({ claims: { user } })
      .accepted;
  assert.deepEqual([accepts(rule, "vip"), accepts(rule, "ann")], [true, false]);
  const made = { ...CLASSIFIER, rules: CLASSIFIER.rules.map((one) => ({ ...one, label: "user" })) };
  assert.equal(accepts(rule, "vip", [made]), false, "a classifier replaces what the caller claims");
});

test("a check that is judged while others are shed reads its labels once", () => {
  const gold = quotaRule({ workloads: [workload("gold", 5)] });
  const at = agent([[gold, quota(1_000, 1_000)]], { busy: 81, most: 100 });
  for (let round = 0; round < 100; round++) {
    at.judge({ claims: { w: "gold" } });
    at.judge();
  }
  at.clock.advance(25);
  const read: string[] = [];
  const labels: LabelSource = {
    get({ name }) {
      read.push(name);
      return name === "w" ? "gold" : undefined;
    },
    origin: () => "claim",
    each: () => undefined,
  };
  const verdict = at.now({ labels });
  assert.deepEqual([verdict.accepted, verdict.shed], [true, undefined]);
  assert.deepEqual(read, ["w"]);
});

test("a control point without rules is judged, and the others run no classifier", () => {
  const overloaded = agent([[rateRule(), rate(9, 9)], CLASSIFIER], OVERLOADED);
  const elsewhere = overloaded.now({ controlPoint: "elsewhere" });
  assert.deepEqual([elsewhere.accepted, elsewhere.shed], [true, undefined]);
  assert.deepEqual(overloaded.now().classifiers, []);
});

/** Which of these flows are judged when half of the room of checks in progress is left to the important ones. */
function importanceOf(rules: readonly Rule[], flows: readonly Partial<Flow & Claims>[]): boolean[] {
  const at = agent(rules, { busy: 90, most: 100 });
  // The guard learns which priorities there are.
  for (let round = 0; round < 100; round++) for (const flow of flows) at.judge(flow);
  at.clock.advance(25);
  return flows.map((flow) => {
    const verdicts = Array.from({ length: 50 }, () => at.now(flow));
    const judged = verdicts.filter(({ shed }) => shed === undefined).length;
    assert.ok(judged === 0 || judged === 50, `${judged} of 50`);
    return judged === 50;
  });
}

interface Claims {
  readonly claims: Record<string, string>;
}

test("priorities are those of the workloads, of a label, or 1", () => {
  const workloads = [workload("gold", 5), workload("bronze", 0.5)];
  const low = quotaRule({ workloads: [workload("gold", 1)] });
  const high = quotaRule({ workloads });
  const gold = { claims: { w: "gold" } };
  for (const both of [
    [low, high],
    [high, low],
  ]) {
    assert.deepEqual(importanceOf(both, [gold, { claims: {} }]), [true, false]);
  }
  assert.deepEqual(importanceOf([high], [{ claims: { w: "bronze" } }, {}]), [false, true]);
  const byLabel = quotaRule({ workloads, priorityLabelKey: "prio" });
  const stated = { claims: { w: "bronze", prio: "9" } };
  assert.deepEqual(importanceOf([byLabel], [gold, stated]), [false, true]);
});

test("what takes a classifier or a regular expression to tell counts as the default priority", () => {
  const costly = { ...workload("any", 50), matcher: { ...ALL, ...COSTLY } };
  const after = quotaRule({
    workloads: [workload("gold", 9), costly, workload("tin", 100)],
    defaultParameters: { priority: 3, tokens: 1, queueTimeoutMs: undefined },
  });
  const flows = [{ claims: { w: "gold" } }, { claims: { path: "/ab" } }];
  assert.deepEqual(importanceOf([after], flows), [true, false]);
  const tin = { claims: { w: "tin" } };
  assert.deepEqual(importanceOf([after], [{ claims: { w: "gold" } }, tin]), [true, false]);
  const chosen = quotaRule({ workloads: [workload("gold", 9)] }, { selectors: selectors(COSTLY) });
  const other = quotaRule({ workloads: [workload("tin", 2)] });
  const goldOfPath = { claims: { w: "gold", path: "/ab" } };
  assert.deepEqual(importanceOf([chosen, other], [goldOfPath, tin]), [false, true]);
  const classified = quotaRule({
    workloads: [{ ...workload("x", 9), matcher: { ...ALL, labels: { made: "x" } } }],
    defaultParameters: { priority: 0.5, tokens: 1, queueTimeoutMs: undefined },
  });
  const known = quotaRule({ workloads: [workload("gold", 2)] });
  assert.deepEqual(
    importanceOf([classified, known, CLASSIFIER], [{ claims: { w: "gold" } }, { claims: {} }]),
    [true, false],
  );
});

/** Shared buckets that answer when they are told to. */
function slowCounters() {
  const waiting: Pending<EngineAnswer>[] = [];
  const engine: Partial<CounterEngine<never> & SharedBucketEngine> = {
    take() {
      const pending = new Pending<EngineAnswer>(() => pending.settle(GRANTED));
      waiting.push(pending);
      return pending;
    },
    adopt: () => undefined,
    close: () => undefined,
  };
  const counters = { buckets: () => engine, slots: () => undefined } as unknown as SharedCounters;
  return { waiting, counters };
}

const GRANTED: EngineAnswer = {
  outcome: "granted",
  remaining: 1,
  current: 1,
  waitMs: 0,
  id: "",
  full: false,
};

test("checks that wait for other servers are in progress until they are answered, and no more than the limit", () => {
  const { waiting, counters } = slowCounters();
  const at = agent([[rateRule({ onFailure: "closed" }), rate(9, 9)]], {
    most: 10,
    sharedCounters: counters,
  });
  const judged = Array.from({ length: 30 }, () => at.judge());
  const pending = judged.filter((one) => one instanceof Pending);
  assert.equal(at.guard.inProgress, 10);
  assert.equal(pending.length, 10);
  for (const one of judged) {
    if (!(one instanceof Pending))
      assert.deepEqual([one.accepted, one.shed], [false, "in_progress"]);
  }
  for (const one of waiting.slice(0, 4)) one.settle(GRANTED);
  assert.equal(at.guard.inProgress, 6);
  // The others' callers leave.
  for (const one of pending) one.cancel();
  assert.equal(at.guard.inProgress, 0);
  assert.ok(at.judge() instanceof Pending);
});

test("a check whose counters fail is not in progress any more", () => {
  const { waiting, counters } = slowCounters();
  const at = agent([[rateRule(), rate(9, 9)]], { most: 10, sharedCounters: counters });
  const failed: unknown[] = [];
  for (let round = 0; round < 3; round++) {
    const judged = at.judge();
    assert.ok(judged instanceof Pending);
    judged.whenSettled(
      () => assert.fail("there is no verdict"),
      (thrown) => failed.push(thrown),
    );
    assert.equal(at.guard.inProgress, 1);
    waiting[round]?.fail(new Error("the engine threw"));
    assert.equal(at.guard.inProgress, 0);
  }
  assert.equal(failed.length, 3);
});

test("checks in a queue are not in progress", () => {
  const at = agent([[quotaRule(), quota(1, 1)]], { most: 1 });
  assert.equal(at.now().accepted, true);
  const waiting = Array.from({ length: 5 }, () => at.judge());
  assert.ok(waiting.every((one) => one instanceof Pending));
  assert.equal(at.guard.inProgress, 0);
});
