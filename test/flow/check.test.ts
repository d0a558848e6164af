import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { seededChance } from "#base/chance.ts";
import { judge, STAGES } from "#flow/check.ts";
import { type Decision, type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import type { Limiter } from "#flow/limit.ts";
import type { Lane, Plan, Point } from "#flow/plan.ts";
import { fakeClock } from "../kit/clock.ts";
import { flowOf, listening, scripted } from "../kit/flow.ts";

function planOf(...limiters: readonly Limiter[]): Plan {
  const lane: Lane = {
    classifiers: [],
    meters: [],
    limiters: STAGES.map(({ limiters: kinds }) =>
      limiters
        .filter(({ component }) => kinds.includes(component.kind))
        .map((item) => ({ item, matches: undefined })),
    ),
  };
  const point: Point = { keys: [], rules: [], limiters, lane: () => lane };
  return { point: () => point, points: new Map() };
}

function world() {
  return { clock: fakeClock(), chance: seededChance(1), observer: listening() };
}

function decided(verdict: Verdict | Pending<Verdict>): Verdict {
  assert.ok(!(verdict instanceof Pending), "a verdict that is there, not one to wait for");
  return verdict;
}

describe("judging a flow", () => {
  it("accepts what no rule speaks about", () => {
    const verdict = decided(judge(planOf(), flowOf(), world()));
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
    it(`says why a ${kind} refused`, () => {
      const limiter = scripted(kind, "root.0", { outcome: "refused", dropped: true });
      const verdict = decided(judge(planOf(limiter), flowOf(), world()));
      assert.deepEqual(
        [verdict.accepted, verdict.reason, verdict.deniedStatus],
        [false, reason, status],
      );
    });
  }

  it("asks no stage after one that refused", () => {
    const sampler = scripted("sampler", "root.0", { outcome: "refused", dropped: true });
    const limiter = scripted("rate_limiter", "root.1");
    decided(judge(planOf(sampler, limiter), flowOf(), world()));
    assert.equal(limiter.taken, 0);
  });

  it("asks all limiters of a stage, also after one refused", () => {
    const first = scripted("rate_limiter", "root.0", { outcome: "refused", dropped: true });
    const second = scripted("concurrency_limiter", "root.1");
    const { decisions } = decided(judge(planOf(first, second), flowOf(), world()));
    assert.deepEqual(
      decisions.map(({ component }) => component.componentId),
      ["root.0", "root.1"],
    );
  });

  it("gives back what every stage took when a later one refuses, before it answers", () => {
    const ramp = scripted("ramp_sampler", "root.0");
    const granted = scripted("rate_limiter", "root.1");
    const refuses = scripted("rate_limiter", "root.2", { outcome: "refused", dropped: true });
    const verdict = decided(judge(planOf(ramp, granted, refuses), flowOf(), world()));
    assert.equal(ramp.undone.length, 1);
    assert.equal(granted.undone.length, 1);
    assert.equal(refuses.undone.length, 0);
    assert.deepEqual(
      verdict.decisions.map(({ consumed, grant }) => [consumed, grant]),
      [
        [0, undefined],
        [0, undefined],
        [0, undefined],
      ],
    );
  });

  it("keeps what it took when it accepts", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const verdict = decided(judge(planOf(limiter), flowOf(), world()));
    assert.equal(limiter.undone.length, 0);
    assert.equal(verdict.decisions[0]?.consumed, 1);
  });

  it("reports the code of the first refuser and the longest wait of all", () => {
    const code = { deniedStatus: 418 };
    const refused = { outcome: "refused", dropped: true } as const;
    const verdict = decided(
      judge(
        planOf(
          scripted("rate_limiter", "root.0", { waitMs: 9_000 }),
          scripted("rate_limiter", "root.1", { ...refused, waitMs: 20 }, code),
          scripted("rate_limiter", "root.2", { ...refused, waitMs: 300 }, { deniedStatus: 503 }),
        ),
        flowOf(),
        world(),
      ),
    );
    assert.deepEqual([verdict.deniedStatus, verdict.waitMs], [418, 300]);
  });

  it("tells the observer once", () => {
    const at = world();
    const verdict = judge(planOf(scripted("rate_limiter", "root.0")), flowOf(), at);
    assert.deepEqual(at.observer.verdicts, [verdict]);
  });
});

describe("ramp mode", () => {
  it("is refused where no ramp sampler matches, and asks nobody", () => {
    const limiter = scripted("rate_limiter", "root.0");
    const verdict = decided(judge(planOf(limiter), flowOf({ rampMode: true }), world()));
    assert.deepEqual(
      [verdict.accepted, verdict.reason, verdict.deniedStatus],
      [false, RejectReason.noMatchingRamp, 0],
    );
    assert.equal(limiter.taken, 0);
  });

  it("passes where a ramp sampler accepts", () => {
    const plan = planOf(scripted("ramp_sampler", "root.0"));
    assert.equal(decided(judge(plan, flowOf({ rampMode: true }), world())).accepted, true);
  });
});

describe("undecided", () => {
  const cannot = { outcome: "undecided", dropped: false } as const;
  for (const mode of ["open", "closed", "local", "last_known"] as const) {
    it(`is answered by the failure mode ${mode}, which the decision names`, () => {
      const at = world();
      const limiter = scripted("rate_limiter", "root.0", cannot, { onFailure: mode });
      const verdict = decided(judge(planOf(limiter), flowOf(), at));
      assert.equal(verdict.accepted, mode === "open");
      assert.equal(verdict.decisions[0]?.failure, mode);
      assert.deepEqual(at.observer.oddities, ["undecided"]);
    });
  }

  for (const mode of ["local", "last_known"] as const) {
    it(`stands as a limiter that could answer by ${mode} answered it`, () => {
      const at = world();
      const limiter = scripted(
        "rate_limiter",
        "root.0",
        { ...cannot, failure: mode },
        { onFailure: mode },
      );
      assert.equal(decided(judge(planOf(limiter), flowOf(), at)).accepted, true);
      assert.deepEqual(at.observer.oddities, [], "counted where it was resolved");
    });
  }
});

describe("a check that breaks", () => {
  const broken = () => {
    throw new Error("broken");
  };

  it("gives back what was taken before", () => {
    const granted = scripted("rate_limiter", "root.0");
    const breaks = { ...scripted("rate_limiter", "root.1"), take: broken };
    assert.throws(() => judge(planOf(granted, breaks), flowOf(), world()), /broken/);
    assert.equal(granted.undone.length, 1);
  });

  it("also takes back what a sister that waits is granted later", () => {
    const waits = scripted("rate_limiter", "root.0", "deaf");
    const breaks = { ...scripted("rate_limiter", "root.1"), take: broken };
    assert.throws(() => judge(planOf(waits, breaks), flowOf(), world()), /broken/);
    waits.answer({});
    assert.equal(waits.undone.length, 1);
  });

  it("fails the caller that waits instead of leaving it hanging", () => {
    const at = world();
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

  it("fails when an engine does", () => {
    const at = world();
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
    const at = world();
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

  it("goes on with the next stages when the answer comes, in component order", () => {
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

  it("is answered 10 ms before the caller's deadline by the failure mode", () => {
    const limiter = scripted("rate_limiter", "root.0", "wait");
    const check = start({ deadline: 1_000_000 + 250 }, limiter);
    check.at.clock.advance(239);
    assert.equal(check.verdict(), undefined);
    check.at.clock.advance(1);
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(check.verdict()?.decisions[0]?.failure, "closed");
    assert.ok(check.at.observer.oddities.includes("late"));
  });

  it("ends after ten seconds when the caller named no deadline", () => {
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
    assert.deepEqual(check.at.observer.oddities.at(-1), "abandoned");
  });

  it("does not hang on an engine that settles nothing when told to give up, and keeps none of its late grants", () => {
    const granted = scripted("rate_limiter", "root.0");
    const deaf = scripted("rate_limiter", "root.1", "deaf");
    const check = start({ deadline: 1_000_000 + 100 }, granted, deaf);
    check.at.clock.advance(90);
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(granted.undone.length, 1);
    deaf.answer({});
    assert.equal(deaf.undone.length, 1, "what came too late went back");
  });

  it("is refused when the caller goes away at a later stage, whatever the failure mode says", () => {
    const sampler = scripted("sampler", "root.0", "wait");
    const limiter = scripted("rate_limiter", "root.1", "wait", { onFailure: "open" });
    const check = start({}, sampler, limiter);
    sampler.answer({});
    check.pending.cancel();
    assert.equal(check.verdict()?.accepted, false);
    assert.equal(sampler.undone.length, 1);
  });
});
