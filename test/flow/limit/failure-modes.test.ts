// Answers in place of a limiter that cannot decide (`on_failure`), and for flows without a label that it reads
// (`on_missing_label`), in every kind of limiter.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FailureMode } from "#base/failure-mode.ts";
import { Missing } from "#flow/flow.ts";
import type { LimiterNumbers, LimiterRule } from "#flow/rules.ts";
import {
  Bench,
  concurrency,
  concurrencyRule,
  type FlatDecision,
  rate,
  rateRule,
  samplerRule,
  share,
  testContext,
} from "./setup.ts";

const MODES = ["open", "closed", "local", "last_known"] as const;

/** The answer of a decision: whether it drops, and the mode that answered. */
function answer({ dropped, failure }: FlatDecision): readonly [boolean, FailureMode | undefined] {
  return [dropped, failure];
}

/** A rule of each counting kind, numbers that let pass one flow of a key, and numbers that are none. */
const COUNTING: Readonly<
  Record<
    string,
    {
      readonly rule: (onFailure: FailureMode) => LimiterRule;
      readonly one: LimiterNumbers;
      readonly invalid: LimiterNumbers;
    }
  >
> = {
  "rate limiter": {
    rule: (onFailure) => rateRule({ onFailure, limitByLabelKey: "k" }),
    one: rate(1, 0),
    invalid: rate(Number.NaN, 0),
  },
  "concurrency limiter": {
    rule: (onFailure) => concurrencyRule({ onFailure, limitByLabelKey: "k" }),
    one: concurrency(1),
    invalid: concurrency(Number.POSITIVE_INFINITY),
  },
};

for (const [name, { rule, one, invalid }] of Object.entries(COUNTING)) {
  describe(`a ${name}`, () => {
    it("before its first numbers: open or local pass, closed refuses, nothing is known yet", () => {
      const wanted = { open: false, closed: true, local: false, last_known: false };
      for (const mode of MODES) {
        const bench = new Bench(rule(mode));
        const decision = bench.take({ k: "a" });
        const stands = mode === "closed" ? "closed" : "open";
        assert.deepEqual(answer(decision), [wanted[mode], stands], mode);
        assert.deepEqual([decision.outcome, decision.consumed], ["undecided", 0]);
        assert.deepEqual(bench.context.anomalies, ["undecided"]);
      }
    });

    it("without numbers any more, and with numbers that are none: last_known goes on counting", () => {
      for (const gone of [undefined, invalid]) {
        for (const mode of MODES) {
          const bench = new Bench(rule(mode), one);
          assert.deepEqual(answer(bench.take({ k: "a" })), [false, undefined]);
          bench.limiter.decide(gone);
          const wanted = {
            open: [false, "open"],
            closed: [true, "closed"],
            local: [false, "open"],
            last_known: [true, "last_known"],
          }[mode];
          assert.deepEqual(answer(bench.take({ k: "a" })), wanted, mode);
          bench.limiter.decide(one);
          assert.deepEqual(answer(bench.take({ k: "a" })), [true, undefined]);
        }
      }
    });

    it("with numbers that a failure mode made: that mode is applied and reported", () => {
      const bench = new Bench(rule("local"), one);
      bench.limiter.decide({ ...one, failure: "closed" });
      assert.deepEqual(answer(bench.take({ k: "a" })), [true, "closed"]);
      bench.limiter.decide({ ...one, failure: "open" });
      assert.deepEqual(answer(bench.take({ k: "a" })), [false, "open"]);
      bench.limiter.decide({ ...one, failure: "last_known" });
      const first = bench.take({ k: "a" });
      assert.deepEqual(answer(first), [false, "last_known"]);
      assert.deepEqual(answer(bench.take({ k: "a" })), [true, "last_known"]);
      bench.undo(first);
      assert.deepEqual(answer(bench.take({ k: "a" })), [false, "last_known"], "given back");
    });

    it("with a full table: rate limiters go on counting; of others, open passes and closed refuses new keys", () => {
      for (const mode of MODES) {
        const bench = new Bench(rule(mode), one, testContext(2));
        bench.take({ k: "a" });
        bench.take({ k: "b" });
        const counts = name === "rate limiter" || mode === "local" || mode === "last_known";
        const decisions = [bench.take({ k: "c" }), bench.take({ k: "c" })];
        assert.deepEqual(
          decisions.map(({ dropped }) => dropped),
          counts ? [false, true] : [mode === "closed", mode === "closed"],
          mode,
        );
        const own = counts ? undefined : mode;
        for (const decision of decisions) assert.equal(decision.failure, own, mode);
        assert.equal(decisions[0]?.grantId === undefined, !counts);
        assert.ok(bench.context.anomalies.includes("keys_overflow"));
        assert.equal(
          bench.take({ k: "a" }).dropped,
          true,
          "a key that was there has its own count",
        );
      }
    });

    it("and a flow without its label: passes, is refused, or counts under the default key", () => {
      const bound = (onMissingLabel: LimiterRule["onMissingLabel"]) =>
        new Bench({ ...rule("local"), onMissingLabel } as LimiterRule, one);
      for (const [mode, dropped] of [
        ["pass", false],
        ["refuse", true],
      ] as const) {
        const bench = bound(mode);
        for (const decision of [bench.take(), bench.take()]) {
          assert.equal(decision.dropped, dropped, mode);
          assert.equal(decision.missing, Missing.key);
          assert.deepEqual([decision.label, decision.grantId], ["", undefined]);
        }
        assert.deepEqual(bench.context.missing, ["key", "key"]);
      }
      const bench = bound("default_key");
      const first = bench.take();
      assert.deepEqual(
        [first.dropped, first.label, first.missing],
        [false, "default", Missing.defaultKey],
      );
      assert.equal(bench.take().dropped, true);
      assert.equal(bench.take({ k: "a" }).dropped, false, "other keys are counted apart");
      bench.undo(first);
      assert.equal(bench.take().dropped, false);
    });

    it("refuses a flow without its label also while it has no numbers", () => {
      const bench = new Bench({ ...rule("open"), onMissingLabel: "refuse" } as LimiterRule);
      assert.equal(bench.take().dropped, true);
      assert.equal(bench.take({ k: "a" }).dropped, false);
    });

    it("a missing tokens label counts as one token, is reported and counted", () => {
      const bench = new Bench({ ...rule("local"), tokensLabelKey: "cost" } as LimiterRule, one);
      const decision = bench.take({ k: "a" });
      assert.deepEqual([decision.consumed, decision.missing], [1, Missing.tokens]);
      assert.deepEqual(bench.context.missing, ["tokens"]);
      assert.equal(bench.take({ k: "b", cost: "1" }).missing, Missing.nothing);
      assert.deepEqual(bench.context.missing, ["tokens"]);
      assert.deepEqual(bench.context.anomalies, []);
    });
  });
}

describe("a sampler", () => {
  it("without a valid share: its mode, or what its kind does", () => {
    for (const rampMode of [false, true]) {
      const usual = rampMode ? "closed" : "open";
      for (const mode of MODES) {
        const bench = new Bench(samplerRule({ rampMode, onFailure: mode }));
        const before = mode === "open" || mode === "closed" ? mode : usual;
        assert.deepEqual(answer(bench.take()), [before === "closed", before], mode);
        // The share that was valid last is the opposite of what the kind does.
        bench.limiter.decide(share(rampMode ? 100 : 0));
        assert.deepEqual(answer(bench.take()), [!rampMode, undefined]);
        for (const gone of [undefined, share(Number.NaN)]) {
          bench.limiter.decide(gone);
          const after = mode === "last_known" ? mode : before;
          const dropped = mode === "last_known" ? !rampMode : before === "closed";
          assert.deepEqual(answer(bench.take()), [dropped, after], mode);
        }
      }
    }
  });

  it("applies and reports the mode that made its share; sessions that always pass still do", () => {
    const bench = new Bench(samplerRule({ sessionLabelKey: "s" }), share(100));
    bench.limiter.decide({ ...share(0, ["vip"]), failure: "closed" });
    assert.deepEqual(answer(bench.take({ s: "x" })), [true, "closed"]);
    assert.deepEqual(answer(bench.take({ s: "vip" })), [false, "closed"]);
    bench.limiter.decide({ ...share(100), failure: "last_known" });
    assert.deepEqual(answer(bench.take({ s: "x" })), [false, "last_known"]);
  });

  it("passes, refuses or samples flows without its session label, and counts them", () => {
    const bound = (onMissingLabel: LimiterRule["onMissingLabel"], percentage: number) =>
      new Bench(samplerRule({ sessionLabelKey: "s", onMissingLabel }), share(percentage));
    assert.deepEqual(
      [bound("pass", 0).take().dropped, bound("pass", 0).take().missing],
      [false, 1],
    );
    assert.deepEqual(
      [bound("refuse", 100).take().dropped, bound("refuse", 100).take().missing],
      [true, Missing.key],
    );
    const sampling = bound("default_key", 50);
    let passed = 0;
    for (let flow = 0; flow < 1_000; flow++) if (!sampling.take().dropped) passed++;
    assert.ok(Math.abs(passed - 500) < 60, String(passed));
    assert.equal(sampling.context.missing.length, 1_000);
    sampling.take({ s: "x" });
    assert.equal(sampling.context.missing.length, 1_000);
    assert.equal(new Bench(samplerRule(), share(50)).take().missing, Missing.nothing);
  });
});

it("10 % of sequential ids are 10 % ± 1 with the mixed hash, and runs of them with FNV-1a alone", () => {
  const passing = (hash: "mixed" | "fnv1a", prefix: string) => {
    const bench = new Bench(samplerRule({ sessionLabelKey: "s", hash }), share(10));
    let passed = 0;
    for (let id = 0; id < 3_000; id++) if (!bench.take({ s: prefix + id }).dropped) passed++;
    return passed / 30;
  };
  for (const prefix of ["", "user-", "1000"]) {
    assert.ok(
      Math.abs(passing("mixed", prefix) - 10) <= 1,
      `${prefix}: ${passing("mixed", prefix)}`,
    );
  }
  assert.ok(Math.abs(passing("fnv1a", "") - 10) > 1, "what the mixing is for");
});
