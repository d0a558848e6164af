import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Pending, type SlotRef, type SlotReturn, type Verdict } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import { LIMITER_KINDS } from "#flow/plan/kinds.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type {
  ConcurrencyLimiterRule,
  LimiterNumbers,
  LimiterRule,
  RateLimiterRule,
  Rule,
  SamplerRule,
  SelectorRule,
} from "#flow/rules.ts";
import { fakeClock } from "../kit/clock.ts";
import { flowOf, recordingObserver } from "../kit/sluice/flow.ts";

const here: SelectorRule = {
  controlPoint: "here",
  agentGroup: "default",
  service: "any",
  matcher: { labels: {}, list: [], expression: undefined },
};
const common = {
  policyName: "p",
  policyHash: "h1",
  selectors: [here],
  onFailure: "local",
  onMissingLabel: "pass",
  deniedStatus: 0,
} as const;

function rate(componentId: string, over: Partial<RateLimiterRule> = {}): RateLimiterRule {
  return {
    ...common,
    kind: "rate_limiter",
    componentId,
    limitByLabelKey: "user",
    tokensLabelKey: "",
    intervalMs: 1_000,
    continuousFill: true,
    delayInitialFill: false,
    maxIdleMs: 0,
    lazySyncs: 0,
    ...over,
  };
}
function concurrency(
  id: string,
  over: Partial<ConcurrencyLimiterRule> = {},
): ConcurrencyLimiterRule {
  return {
    ...common,
    kind: "concurrency_limiter",
    componentId: id,
    limitByLabelKey: "",
    tokensLabelKey: "",
    maxInflightMs: 60_000,
    maxIdleMs: 0,
    ...over,
  };
}
function sampler(componentId: string, rampMode: boolean): SamplerRule {
  return { ...common, kind: "sampler", componentId, sessionLabelKey: "", rampMode, hash: "mixed" };
}
function numbersFor(rule: LimiterRule, capacity: number, fill = 0): LimiterNumbers {
  const { policyName, policyHash, componentId } = rule;
  const owner = { policyName, policyHash, componentId };
  switch (rule.kind) {
    case "rate_limiter":
    case "quota_scheduler":
      return {
        ...owner,
        kind: rule.kind,
        bucketCapacity: capacity,
        fillAmount: fill,
        passThrough: false,
      };
    case "concurrency_limiter":
    case "concurrency_scheduler":
      return { ...owner, kind: rule.kind, maxConcurrency: capacity, passThrough: false };
    case "sampler":
      return { ...owner, kind: rule.kind, acceptPercentage: capacity, passThroughLabelValues: [] };
    case "load_scheduler": {
      const rest = { passThrough: false, tokensByWorkload: new Map(), validUntil: 0 };
      return { ...owner, kind: rule.kind, loadMultiplier: capacity, ...rest };
    }
  }
}

function agent() {
  const clock = fakeClock();
  const observer = recordingObserver();
  const world = { clock, chance: seededChance(5), observer, maxKeys: 10_000 };
  const book = new Rulebook("default", world);
  const controller = createFlowController(book, world);
  const keyOf = (rule: Rule) =>
    "componentId" in rule ? `${rule.kind}/${rule.policyName}/${rule.componentId}` : rule.kind;
  return {
    book,
    clock,
    /** Takes rules with their numbers in as one batch. */
    take(...given: readonly (readonly [LimiterRule, number?, number?])[]) {
      return book.apply({
        rules: new Map(given.map(([rule]) => [keyOf(rule), rule])),
        numbers: new Map(
          given.flatMap(([rule, capacity, fill]) =>
            capacity === undefined ? [] : [[keyOf(rule), numbersFor(rule, capacity, fill)]],
          ),
        ),
      });
    },
    drop: (...given: readonly Rule[]) =>
      book.apply({
        rules: new Map(given.map((rule) => [keyOf(rule), undefined])),
        numbers: new Map(),
      }),
    dropNumbers: (...given: readonly Rule[]) =>
      book.apply({
        rules: new Map(),
        numbers: new Map(given.map((rule) => [keyOf(rule), undefined])),
      }),
    ask(user = "ann", point = "here"): Verdict {
      const verdict = controller.judge(flowOf({ controlPoint: point, claims: { user } }));
      assert.ok(!(verdict instanceof Pending));
      return verdict;
    },
    end(...refs: readonly SlotRef[]): readonly SlotReturn[] {
      const ended = controller.end(refs);
      assert.ok(!(ended instanceof Pending));
      return ended;
    },
    /** The number of n checks that pass. */
    passes(n: number, user = "ann"): number {
      return Array.from({ length: n }, () => this.ask(user)).filter(({ accepted }) => accepted)
        .length;
    },
  };
}

describe("state across changes of a policy", () => {
  it("buckets survive an edit elsewhere in the policy", () => {
    const a = agent();
    a.take([rate("root.0"), 5]);
    assert.equal(a.passes(3), 3);
    a.take([rate("root.0", { policyHash: "h2" }), 5]);
    assert.equal(a.passes(10), 2);
  });

  it("inserting a component moves no bucket", () => {
    const a = agent();
    a.take([rate("root.0"), 5]);
    assert.equal(a.passes(5), 5);
    a.take(
      [rate("root.0", { policyHash: "h2", limitByLabelKey: "other" }), 100],
      [rate("root.1", { policyHash: "h2" }), 5],
    );
    assert.equal(a.passes(10), 0);
  });

  it("components with equal meaning keep their state in order of component id, root.2 before root.10", () => {
    const a = agent();
    a.take([rate("root.10"), 3], [rate("root.2"), 7]);
    assert.equal(a.passes(3), 3);
    const left = a
      .ask("ann")
      .decisions.map(({ component, detail }) => [
        component.componentId,
        "remaining" in detail && detail.remaining,
      ]);
    assert.deepEqual(left, [
      ["root.2", 3],
      ["root.10", 0],
    ]);
    a.take([rate("root.10", { policyHash: "h2" }), 3], [rate("root.2", { policyHash: "h2" }), 7]);
    assert.equal(a.passes(1), 0);
  });

  it("components with equal meaning are paired by component id, not by arrival", () => {
    const a = agent();
    a.take([rate("root.10"), 3], [rate("root.2"), 7]);
    assert.equal(a.passes(2), 2);
    // In one batch root.2 becomes root.10 and root.10 becomes root.11, as an insertion would have it.
    const first = rate("root.10", { policyHash: "h2" });
    const second = rate("root.11", { policyHash: "h2" });
    a.book.apply({
      rules: new Map<string, Rule | undefined>([
        ["rate_limiter/p/root.2", undefined],
        ["rate_limiter/p/root.11", second],
        ["rate_limiter/p/root.10", first],
      ]),
      numbers: new Map([
        ["rate_limiter/p/root.2", undefined],
        ["rate_limiter/p/root.11", numbersFor(second, 3)],
        ["rate_limiter/p/root.10", numbersFor(first, 7)],
      ]),
    });
    const left = a
      .ask()
      .decisions.map(({ component, detail }) => [
        component.componentId,
        "remaining" in detail && detail.remaining,
      ]);
    assert.deepEqual(left, [
      ["root.10", 4],
      ["root.11", 0],
    ]);
  });

  it("a bucket whose meaning changed starts full", () => {
    const a = agent();
    a.take([rate("root.0"), 5]);
    assert.equal(a.passes(5), 5);
    a.take([rate("root.0", { policyHash: "h2", limitByLabelKey: "" }), 5]);
    assert.equal(a.passes(10), 5);
  });

  it("control points whose rules did not change keep their compiled plan", () => {
    const a = agent();
    const other = rate("root.1", { selectors: [{ ...here, controlPoint: "there" }] });
    a.take([rate("root.0"), 5], [other, 5]);
    const before = a.book.plan;
    a.take([rate("root.0", { policyHash: "h2" }), 5]);
    assert.equal(a.book.plan.controlPoint("there"), before.controlPoint("there"));
    assert.notEqual(a.book.plan.controlPoint("here"), before.controlPoint("here"));
  });
});

it("plans for combinations of services are kept for at most 256 of them", () => {
  const a = agent();
  const names = Array.from({ length: 24 }, (_, at) => `s${at}`);
  const selectors = names.map((service) => ({ ...here, service }));
  a.take([rate("root.0", { selectors }), 5]);
  const point = a.book.plan.controlPoint("here");
  const pairs = names.flatMap((one, at) => names.slice(at + 1).map((other) => [one, other]));
  const plans = pairs.map((pair) => point.forServices(pair));
  const kept = pairs.filter((pair, at) => point.forServices(pair) === plans[at]);
  assert.deepEqual([pairs.length, kept.length], [276, 256]);
});

describe("numbers from the controller", () => {
  it("of another policy version are ignored; the last ones stay in force until its own arrive", () => {
    const a = agent();
    a.take([rate("root.0"), 2]);
    a.take([rate("root.0", { policyHash: "h2" })]);
    assert.equal(a.passes(5), 2, "still judged by the numbers of h1");
    a.book.apply({
      rules: new Map(),
      numbers: new Map([["rate_limiter/p/root.0", numbersFor(rate("root.0"), 1_000, 1_000)]]),
    });
    a.clock.advance(1_000);
    assert.equal(a.passes(5), 0, "late numbers of h1 change nothing");
  });

  it("of the predecessor stay in force where the meaning of a component changed, until its own arrive", () => {
    const a = agent();
    a.take([rate("root.0"), 2]);
    const changed = rate("root.0", {
      policyHash: "h2",
      selectors: [here, { ...here, service: "cart" }],
    });
    a.take([changed]);
    assert.equal(a.passes(5), 2, "a new bucket, by the old numbers: it is not open");
    a.take([changed, 3, 3]);
    a.clock.advance(1_000);
    assert.equal(a.passes(5), 3, "by its own numbers");
  });

  it("may arrive before their rule", () => {
    const a = agent();
    const rule = rate("root.0");
    a.book.apply({
      rules: new Map(),
      numbers: new Map([["rate_limiter/p/root.0", numbersFor(rule, 1)]]),
    });
    a.take([rule]);
    assert.equal(a.passes(5), 1);
  });

  it("leave limiters open and a ramp sampler closed while they are missing", () => {
    const a = agent();
    a.take([rate("root.0")], [concurrency("root.1")], [sampler("root.2", false)]);
    assert.equal(a.passes(3), 3);
    a.take([sampler("root.3", true)]);
    assert.equal(a.passes(3), 0);
  });

  it("open the limiter again when they are removed", () => {
    const a = agent();
    a.take([rate("root.0"), 0]);
    assert.equal(a.passes(3), 0);
    a.dropNumbers(rate("root.0"));
    assert.equal(a.passes(3), 3);
  });

  it("are in force again when they return unchanged after their removal", () => {
    const a = agent();
    const rule = rate("root.0");
    const numbers = numbersFor(rule, 0);
    const put = { rules: new Map(), numbers: new Map([["rate_limiter/p/root.0", numbers]]) };
    a.take([rule]);
    a.book.apply(put);
    a.dropNumbers(rule);
    assert.equal(a.passes(3), 3);
    a.book.apply(put);
    assert.equal(a.passes(3), 0);
  });

  it("of another kind under a limiter's key leave it open", () => {
    const a = agent();
    const foreign = numbersFor(concurrency("root.0"), 0);
    for (const rule of [rate("root.0"), sampler("root.0", false)]) {
      a.take([rule, 0]);
      assert.equal(a.passes(3), 0);
      const key = `${rule.kind}/p/root.0`;
      a.book.apply({ rules: new Map(), numbers: new Map([[key, foreign]]) });
      assert.equal(a.passes(3), 3);
    }
  });

  it("that are all zero block everything", () => {
    const a = agent();
    a.take([concurrency("root.0"), 0]);
    assert.equal(a.passes(3), 0);
  });
});

describe("a rule that does not compile", () => {
  const regex = {
    labels: {},
    list: [],
    expression: { kind: "label_matches", label: "user", regex: "(" },
  } as const;
  it("is reported, leaves its predecessor in force and affects no other", () => {
    const a = agent();
    a.take([rate("root.0"), 1]);
    const refused = a.take(
      [rate("root.0", { policyHash: "h2", selectors: [{ ...here, matcher: regex }] }), 99],
      [concurrency("root.1"), 0],
    );
    assert.deepEqual(
      refused.map(({ key, fault }) => [key, fault.code]),
      [["rate_limiter/p/root.0", "INVALID_ARGUMENT"]],
    );
    assert.equal(a.ask().decisions.length, 2);
    assert.equal(a.passes(3), 0);
  });
});

describe("ending a flow", () => {
  const slotOf = ({ decisions: [first] }: Verdict, over = {}) => ({
    policyName: "p",
    policyHash: "h1",
    componentId: "root.0",
    label: first?.detail.label ?? "",
    requestId: first?.grantId ?? "",
    tokens: 1,
    ...over,
  });

  it("frees the slot once", () => {
    const a = agent();
    a.take([concurrency("root.0"), 1]);
    const first = a.ask();
    assert.equal(a.ask().accepted, false);
    assert.deepEqual(a.end(slotOf(first), slotOf(first)), [
      { returned: true, error: "" },
      { returned: false, error: "" },
    ]);
    assert.equal(a.ask().accepted, true);
  });

  it("works with any policy hash, and after an insertion renumbered the component", () => {
    const a = agent();
    a.take([concurrency("root.0"), 1]);
    const first = a.ask();
    a.take(
      [concurrency("root.0", { policyHash: "h2", limitByLabelKey: "user" }), 9],
      [concurrency("root.1", { policyHash: "h2" }), 1],
    );
    assert.equal(a.ask().accepted, false);
    assert.equal(a.end(slotOf(first))[0]?.returned, true);
    assert.equal(a.ask().accepted, true);
  });

  it("reports what is wrong with a reference", () => {
    const a = agent();
    a.take([concurrency("root.0"), 1], [rate("root.1"), 5]);
    const first = a.ask();
    const errors = a.end(
      slotOf(first, { policyName: "unknown" }),
      slotOf(first, { requestId: "" }),
      slotOf(first, { requestId: "no-such-slot" }),
    );
    assert.deepEqual(
      errors.map(({ error }) => error),
      ["flow ender not found for limiter id", "request id cannot be empty", ""],
    );
  });
});

describe("policies edited under load", () => {
  it("never let more pass than capacity and refill allow", () => {
    const edit = fc.record({
      kind: fc.constantFrom("hash", "insert", "remove inserted", "readd", "nothing"),
      checks: fc.integer({ min: 0, max: 6 }),
      ms: fc.integer({ min: 0, max: 400 }),
    });
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 40 }), (edits) => {
        const capacity = 4;
        const fill = 2;
        const a = agent();
        let hash = 0;
        let elapsed = 0;
        let passed = 0;
        a.take([rate("root.0"), capacity, fill]);
        for (const { kind, checks, ms } of edits) {
          hash += 1;
          const policyHash = `h${hash}`;
          const limited = rate("root.0", { policyHash });
          if (kind === "hash") a.take([limited, capacity, fill]);
          if (kind === "insert")
            a.take([limited, capacity, fill], [concurrency("root.1", { policyHash }), 50]);
          if (kind === "remove inserted") a.drop(concurrency("root.1"));
          if (kind === "readd") a.take([limited]);
          a.clock.advance(ms);
          elapsed += ms;
          passed += a.passes(checks);
          const most = capacity + (fill * elapsed) / 1_000 + 1e-6;
          assert.ok(passed <= most, `${passed} passed, at most ${most} may`);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("a flow that one limiter refuses", () => {
  it("gets back what it took from the keyed bucket of another, and from no other key's", () => {
    const a = agent();
    a.take([rate("root.0"), 3], [concurrency("root.1"), 1]);
    const left = (user: string) => {
      const [first] = a.ask(user).decisions;
      return first !== undefined && "remaining" in first.detail && first.detail.remaining;
    };
    assert.equal(a.ask("ann").accepted, true);
    // The only slot is held: each of these takes a token of the bucket and must give it back.
    for (let flow = 0; flow < 10; flow++) {
      assert.equal(a.ask("ann").accepted, false);
      assert.equal(a.ask("bob").accepted, false);
    }
    assert.deepEqual([left("ann"), left("bob")], [1, 2], "what the next flow would leave");
    const [, slots] = a.ask("carl").decisions;
    assert.equal(slots?.dropped, true);
  });
});

describe("the identity of states", () => {
  it("is derived again only for rules that changed", () => {
    let derived = 0;
    const row = LIMITER_KINDS.rows.rate_limiter;
    const meaning = (rule: never) => {
      derived++;
      return row.meaning(rule);
    };
    const kinds = {
      ...LIMITER_KINDS,
      rows: { ...LIMITER_KINDS.rows, rate_limiter: { ...row, meaning } },
    };
    const [clock, observer] = [fakeClock(), recordingObserver()];
    const context = { clock, chance: seededChance(1), observer, maxKeys: 100 };
    const book = new Rulebook("default", context, kinds);
    const rules = Array.from({ length: 50 }, (_, at): [string, Rule] => [`k${at}`, rate(`c${at}`)]);
    const numbers = new Map<string, LimiterNumbers>();
    book.apply({ rules: new Map(rules), numbers });
    derived = 0;
    book.apply({ rules: new Map([["k7", rate("c7", { policyHash: "h2" })]]), numbers });
    assert.ok(derived > 0 && derived <= 2, `${derived} identities`);
  });
});

it("reports the adaptive limits of each version of a policy, also before numbers for it come", () => {
  const versions: string[] = [];
  const observer = {
    ...recordingObserver(),
    adapted: ({ policyHash }: { policyHash: string }) => void versions.push(policyHash),
  };
  const world = { clock: fakeClock(), chance: seededChance(1), observer, maxKeys: 100 };
  const book = new Rulebook("default", world);
  const adaptive = { min: 2, max: 50, start: 10, tolerance: 1.5 };
  for (const policyHash of ["h1", "h2"]) {
    const rules = new Map([["slots", concurrency("slots", { policyHash, adaptive })]]);
    book.apply({ rules, numbers: new Map() });
  }
  assert.deepEqual(versions, ["h1", "h2"]);
});
