import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge } from "#flow/check.ts";
import type { Classifier } from "#flow/classify/classifier.ts";
import {
  ClassifierError,
  type Decision,
  type Flow,
  Pending,
  Queued,
  RejectReason,
  type Verdict,
} from "#flow/flow.ts";
import type { Limiter } from "#flow/limit/limiter.ts";
import { LIMITER_KINDS } from "#flow/plan/kinds.ts";
import { STAGES } from "#flow/stages.ts";
import { fakeClock } from "../kit/clock.ts";
import {
  consumedBy,
  countedIds,
  decisionOf,
  flowOf,
  planOfSteps,
  recordingObserver,
  requestOf,
  scripted,
  stepOf,
} from "../kit/sluice/flow.ts";

/** A plan that asks these limiters of every flow, each at the stage of its kind. */
function planOf(...limiters: readonly Limiter[]) {
  return planOfSteps(
    STAGES.map((stage) =>
      stepOf(
        stage,
        limiters.filter(({ component }) => LIMITER_KINDS.rows[component.kind].stage === stage),
      ),
    ),
  );
}

function contextOf() {
  const observer = recordingObserver();
  return { clock: fakeClock(), chance: seededChance(1), observer, nextDecisionId: countedIds() };
}

function decided(verdict: Verdict | Pending<Verdict>): Verdict {
  assert.ok(!(verdict instanceof Pending), "the verdict is not pending");
  return verdict;
}

describe("judging a flow", () => {
  it("accepts a flow that no rule applies to", () => {
    const verdict = decided(judge(planOf(), flowOf(), contextOf()));
    assert.equal(verdict.accepted, true);
    assert.equal(verdict.reason, RejectReason.none);
    assert.deepEqual(verdict.decisions, []);
  });

  const refusals = [
    { kind: "ramp_sampler", reason: RejectReason.noMatchingRamp, status: 403 },
    { kind: "sampler", reason: RejectReason.notSampled, status: 403 },
    { kind: "rate_limiter", reason: RejectReason.rateLimited, status: 429 },
    { kind: "concurrency_limiter", reason: RejectReason.rateLimited, status: 429 },
  ] as const;
  for (const { kind, reason, status } of refusals) {
    it(`reports why a ${kind} refused`, () => {
      const limiter = scripted(kind, "root.0", { outcome: "refused", dropped: true });
      const verdict = decided(judge(planOf(limiter), flowOf(), contextOf()));
      assert.deepEqual(
        [verdict.accepted, verdict.reason, verdict.deniedStatus],
        [false, reason, status],
      );
    });
  }

  it("skips the stages after one that refused", () => {
    const sampler = scripted("sampler", "root.0", { outcome: "refused", dropped: true });
    const limiter = scripted("rate_limiter", "root.1");
    decided(judge(planOf(sampler, limiter), flowOf(), contextOf()));
    assert.equal(limiter.taken, 0);
  });

  it("asks all limiters of a stage even after one refused", () => {
    const first = scripted("rate_limiter", "root.0", { outcome: "refused", dropped: true });
    const second = scripted("concurrency_limiter", "root.1");
    const { decisions } = decided(judge(planOf(first, second), flowOf(), contextOf()));
    assert.deepEqual(
      decisions.map(({ component }) => component.componentId),
      ["root.0", "root.1"],
    );
  });

  it("gives back what earlier stages took when a later one refuses, before it answers", () => {
    const ramp = scripted("ramp_sampler", "root.0");
    const granted = scripted("rate_limiter", "root.1");
    const refuses = scripted("rate_limiter", "root.2", { outcome: "refused", dropped: true });
    const verdict = decided(judge(planOf(ramp, granted, refuses), flowOf(), contextOf()));
    assert.equal(ramp.undone.length, 1);
    assert.equal(granted.undone.length, 1);
    assert.equal(refuses.undone.length, 0);
    assert.deepEqual(
      verdict.decisions.map((decision) => [consumedBy(decision), decision.grantId]),
      [
        [0, undefined],
        [0, undefined],
        [0, undefined],
      ],
    );
  });

  it("keeps what it took when it accepts", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const verdict = decided(judge(planOf(limiter), flowOf(), contextOf()));
    assert.equal(limiter.undone.length, 0);
    assert.equal(consumedBy(verdict.decisions[0]), 1);
  });

  it("reports the status of the first limiter that refused and the longest wait of all", () => {
    const code = { deniedStatus: 418 };
    const refused = { outcome: "refused", dropped: true } as const;
    const verdict = decided(
      judge(
        planOf(
          scripted("rate_limiter", "root.0", { waitMs: 9_000 }),
          scripted("rate_limiter", "root.1", { ...refused, waitMs: 20 }, code),
          scripted("rate_limiter", "root.2", { ...refused, waitMs: 300 }, { deniedStatus: 503 }),
          scripted("rate_limiter", "root.3", { ...refused, waitMs: 40 }),
        ),
        flowOf(),
        contextOf(),
      ),
    );
    assert.deepEqual([verdict.deniedStatus, verdict.waitMs], [418, 300]);
  });

  it("notifies the observer once", () => {
    const at = contextOf();
    const verdict = judge(planOf(scripted("rate_limiter", "root.0")), flowOf(), at);
    assert.deepEqual(at.observer.verdicts, [verdict]);
  });
});

describe("classifiers", () => {
  function classifierOf(index: number, unreadable?: string): Classifier {
    const identity = { policyName: "p", policyHash: "h", classifierIndex: index };
    const info = { ...identity, error: ClassifierError.none, unreadable };
    return { info, run: () => info, fail: () => info };
  }

  it("reports each one that could not read the source of a label", () => {
    const at = contextOf();
    const plan = planOfSteps(
      [],
      [classifierOf(0), classifierOf(1, "cut"), classifierOf(2, "malformed")],
    );
    const verdict = decided(judge(plan, flowOf({ http: requestOf({}) }), at));
    assert.deepEqual(
      verdict.classifiers.map(({ unreadable }) => unreadable),
      [undefined, "cut", "malformed"],
    );
    assert.deepEqual(at.observer.anomalies, ["label_unreadable", "label_unreadable"]);
  });
});

describe("ramp mode", () => {
  it("refuses where no ramp sampler matches, and asks no limiter", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const verdict = decided(judge(planOf(limiter), flowOf({ rampMode: true }), contextOf()));
    assert.deepEqual(
      [verdict.accepted, verdict.reason, verdict.deniedStatus],
      [false, RejectReason.noMatchingRamp, 0],
    );
    assert.equal(limiter.taken, 0);
  });

  it("lets a flow pass where a ramp sampler accepts", () => {
    const plan = planOf(scripted("ramp_sampler", "root.0"));
    assert.equal(decided(judge(plan, flowOf({ rampMode: true }), contextOf())).accepted, true);
  });
});

describe("undecided", () => {
  const cannot = { outcome: "undecided", dropped: false } as const;
  for (const mode of ["open", "closed", "local", "last_known"] as const) {
    it(`is resolved by the failure mode ${mode}, which the decision names`, () => {
      const at = contextOf();
      const limiter = scripted("rate_limiter", "root.0", cannot, { onFailure: mode });
      const verdict = decided(judge(planOf(limiter), flowOf(), at));
      assert.equal(verdict.accepted, mode === "open");
      assert.equal(verdict.decisions[0]?.failure, mode);
      assert.deepEqual(at.observer.anomalies, ["undecided"]);
    });
  }

  for (const mode of ["local", "last_known"] as const) {
    it(`keeps the answer of a limiter that resolved it by ${mode} itself`, () => {
      const at = contextOf();
      const limiter = scripted(
        "rate_limiter",
        "root.0",
        { ...cannot, failure: mode },
        { onFailure: mode },
      );
      assert.equal(decided(judge(planOf(limiter), flowOf(), at)).accepted, true);
      assert.deepEqual(at.observer.anomalies, [], "counted where it was resolved");
    });
  }
});

describe("a check in which something throws", () => {
  const broken = () => {
    throw new Error("broken");
  };

  it("gives back what was taken before", () => {
    const granted = scripted("rate_limiter", "root.0");
    const breaks = { ...scripted("rate_limiter", "root.1"), take: broken };
    assert.throws(() => judge(planOf(granted, breaks), flowOf(), contextOf()), /broken/);
    assert.equal(granted.undone.length, 1);
  });

  it("gives back what a pending limiter of the same stage is granted later", () => {
    const waits = scripted("rate_limiter", "root.0", "deaf");
    const breaks = { ...scripted("rate_limiter", "root.1"), take: broken };
    assert.throws(() => judge(planOf(waits, breaks), flowOf(), contextOf()), /broken/);
    waits.answer({});
    assert.equal(waits.undone.length, 1);
  });

  it("fails the pending verdict instead of leaving it open", () => {
    const at = contextOf();
    const slow = scripted("sampler", "root.0", "wait");
    const breaks = { ...scripted("rate_limiter", "root.1"), take: broken };
    const pending = judge(planOf(slow, breaks), flowOf(), at);
    assert.ok(pending instanceof Pending);
    let thrown: unknown;
    pending.whenSettled(
      () => assert.fail(),
      (cause) => {
        thrown = cause;
      },
    );
    slow.answer({});
    assert.match(String(thrown), /broken/);
    assert.equal(slow.undone.length, 1);
    assert.equal(at.clock.alarms, 0);
  });

  it("fails when an engine fails", () => {
    const at = contextOf();
    const granted = scripted("rate_limiter", "root.0");
    const engine = new Pending<Decision>();
    const breaks = { ...scripted("rate_limiter", "root.1"), take: () => engine };
    const pending = judge(planOf(granted, breaks), flowOf(), at);
    assert.ok(pending instanceof Pending);
    let thrown: unknown;
    pending.whenSettled(
      () => assert.fail(),
      (cause) => {
        thrown = cause;
      },
    );
    engine.fail(new Error("gone"));
    assert.match(String(thrown), /gone/);
    assert.equal(granted.undone.length, 1);
    assert.equal(at.clock.alarms, 0);
  });
});

describe("a check that waits", () => {
  function start(flow: Partial<Flow>, ...limiters: readonly Limiter[]) {
    const at = contextOf();
    const pending = judge(planOf(...limiters), flowOf(flow), at);
    assert.ok(pending instanceof Pending);
    let verdict: Verdict | undefined;
    let broken: unknown;
    pending.whenSettled(
      (settled) => {
        verdict = settled;
      },
      (thrown) => {
        broken = thrown;
      },
    );
    return { at, pending, verdict: () => verdict, broken: () => broken };
  }

  it("continues with the next stages when the answer comes, in component order", () => {
    const slow = scripted("sampler", "root.0", "wait");
    const other = scripted("sampler", "root.1");
    const next = scripted("rate_limiter", "root.2");
    const check = start({}, slow, other, next);
    assert.equal(next.taken, 0);
    assert.equal(check.verdict(), undefined);
    slow.answer({});
    assert.equal(check.verdict()?.accepted, true);
    assert.deepEqual(
      check.verdict()?.decisions.map(({ component }) => component.componentId),
      ["root.0", "root.1", "root.2"],
    );
    assert.equal(check.at.clock.alarms, 0);
  });

  it("tells when it began and ended, the time of waiting included", () => {
    const limiter = scripted("rate_limiter", "root.0", "wait");
    const check = start({}, limiter);
    const began = check.at.clock.wall();
    check.at.clock.advance(40);
    limiter.answer({});
    const { start: from, end: to } = check.verdict() ?? {};
    assert.deepEqual([from, to], [began, began + 40]);
  });

  it("ends when it began, or later, also when the system clock is set back", () => {
    const clock = fakeClock();
    let back = 0;
    const setBack = { ...clock, wallOf: (at: number) => clock.wallOf(at) - back };
    const limiter = scripted("rate_limiter", "root.0", "wait");
    const pending = judge(planOf(limiter), flowOf(), { ...contextOf(), clock: setBack });
    assert.ok(pending instanceof Pending);
    const verdicts: Verdict[] = [];
    pending.whenSettled(
      (verdict) => verdicts.push(verdict),
      (thrown) => {
        throw thrown;
      },
    );
    back = 60_000;
    limiter.answer({});
    assert.deepEqual(
      verdicts.map(({ start: from, end: to }) => [from, to]),
      [[clock.wall(), clock.wall()]],
    );
  });

  it("leaves its queues when a limiter of the same stage refuses later", () => {
    const asked = scripted("rate_limiter", "root.0", "wait");
    const refused = { outcome: "refused", dropped: true } as const;
    const queues = scripted("rate_limiter", "root.1");
    let left = 0;
    const place = new Queued<Decision>(() => {
      left++;
      place.settle(decisionOf(queues.component, refused));
    });
    const check = start({}, asked, { ...queues, take: () => place });
    assert.equal(left, 0);
    asked.answer(refused);
    assert.equal(left, 1);
    assert.equal(check.verdict()?.accepted, false, "nobody waits for the queue");
  });

  it("can wait again at a later stage", () => {
    const sampler = scripted("sampler", "root.0", "wait");
    const limiter = scripted("rate_limiter", "root.1", "wait");
    const check = start({}, sampler, limiter);
    sampler.answer({});
    assert.equal(check.verdict(), undefined);
    limiter.answer({ outcome: "refused", dropped: true });
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(sampler.undone.length, 1);
  });

  it("is resolved by the failure mode 10 ms before the caller's deadline", () => {
    const limiter = scripted("rate_limiter", "root.0", "wait");
    const check = start({ deadline: 1_000_000 + 250 }, limiter);
    check.at.clock.advance(239);
    assert.equal(check.verdict(), undefined);
    check.at.clock.advance(1);
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(check.verdict()?.decisions[0]?.failure, "closed");
    assert.ok(check.at.observer.anomalies.includes("late"));
  });

  it("ends after ten seconds when the caller set no deadline", () => {
    const check = start({}, scripted("rate_limiter", "root.0", "wait"));
    check.at.clock.advance(9_999);
    assert.equal(check.verdict(), undefined);
    check.at.clock.advance(1);
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(check.at.clock.alarms, 0);
  });

  it("gives everything back and settles once when the caller goes away", () => {
    const granted = scripted("rate_limiter", "root.0");
    const slow = scripted("rate_limiter", "root.1", "wait");
    const check = start({}, granted, slow);
    check.pending.cancel();
    assert.equal(granted.undone.length, 1);
    slow.answer({});
    assert.equal(check.at.observer.verdicts.length, 0, "a caller that left was not refused");
    assert.deepEqual(check.at.observer.anomalies.at(-1), "abandoned");
  });

  it("does not hang on an engine that ignores cancellation, and gives its late grants back", () => {
    const granted = scripted("rate_limiter", "root.0");
    const deaf = scripted("rate_limiter", "root.1", "deaf");
    const check = start({ deadline: 1_000_000 + 100 }, granted, deaf);
    check.at.clock.advance(90);
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(granted.undone.length, 1);
    deaf.answer({});
    assert.equal(deaf.undone.length, 1, "the late grant is given back");
  });

  it("is refused when the caller goes away at a later stage, whatever the failure mode", () => {
    const sampler = scripted("sampler", "root.0", "wait");
    const limiter = scripted("rate_limiter", "root.1", "wait", { onFailure: "open" });
    const check = start({}, sampler, limiter);
    sampler.answer({});
    check.pending.cancel();
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(sampler.undone.length, 1);
  });
});
