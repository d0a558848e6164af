import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "#base/fault.ts";
import { LabelSlots, type LabelSource, Labels } from "#flow/label.ts";
import { compileMatcher } from "#flow/match/matcher.ts";
import type { Match } from "#flow/match/work.ts";
import type { ExpressionRule, MatcherRule, Requirement } from "#flow/rules.ts";

type Given = Readonly<Record<string, string>>;

function sourceOf(given: Given): LabelSource {
  const map = new Map(Object.entries(given));
  return {
    get: ({ name }) => map.get(name),
    origin: ({ name }) => (map.has(name) ? "claim" : undefined),
    each: (visit) => {
      for (const [name, value] of map) visit(name, value, true, "claim");
    },
  };
}

function ruleOf(parts: Partial<MatcherRule>): MatcherRule {
  return { labels: {}, list: [], expression: undefined, ...parts };
}

function matches(rule: MatcherRule, given: Given): Match {
  const slots = new LabelSlots();
  const matcher = compileMatcher(rule, slots);
  return matcher === undefined || matcher(new Labels(slots.schema, sourceOf(given)));
}

/** Too long to be tested against `COSTLY`. */
const LONG = "b".repeat(10_000);
const COSTLY = "a[ab]{20}[0-9]";

/** The specification's words, word for word and slow. `untested`: what an expression is that is not tested. */
function naive(rule: MatcherRule, given: Given, untested: boolean): boolean {
  const has = (key: string) => Object.hasOwn(given, key);
  const within = ({ key, values }: Requirement) =>
    has(key) && (values.length === 0 ? [""] : values).includes(given[key] ?? "");
  const holds = (part: ExpressionRule): boolean => {
    switch (part.kind) {
      case "not":
        return !holds(part.of);
      case "all":
        return part.of.every(holds);
      case "any":
        return part.of.some(holds);
      case "label_exists":
        return has(part.label);
      case "label_equals":
        return has(part.label) && given[part.label] === part.value;
      case "label_matches":
        if (part.regex === COSTLY && given[part.label] === LONG) return untested;
        return has(part.label) && new RegExp(part.regex, "u").test(given[part.label] ?? "");
    }
  };
  for (const [key, value] of Object.entries(rule.labels)) {
    if (!has(key) || given[key] !== value) return false;
  }
  for (const requirement of rule.list) {
    if (requirement.operator === "In" && !within(requirement)) return false;
    if (requirement.operator === "NotIn" && within(requirement)) return false;
    if (requirement.operator === "Exists" && !has(requirement.key)) return false;
    if (requirement.operator === "DoesNotExist" && has(requirement.key)) return false;
  }
  return rule.expression === undefined || holds(rule.expression);
}

const key = fc.constantFrom("a", "b", "c");
const value = fc.constantFrom("", "1", "2", "x1", "g.ld", "gold", LONG);
const labels = fc.dictionary(key, value, { maxKeys: 3 });
const requirement: fc.Arbitrary<Requirement> = fc.record({
  key,
  operator: fc.constantFrom("In", "NotIn", "Exists", "DoesNotExist"),
  values: fc.array(value, { maxLength: 3 }),
});
const expression = fc.letrec<{ tree: ExpressionRule }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ kind: fc.constant("label_exists" as const), label: key }),
    fc.record({ kind: fc.constant("label_equals" as const), label: key, value }),
    fc.record({
      kind: fc.constant("label_matches" as const),
      label: key,
      regex: fc.constantFrom("", "1", "^x", "[0-9]$", "^(1|2)$", "g.ld", "g\\.ld", COSTLY),
    }),
    fc.record({ kind: fc.constant("not" as const), of: tie("tree") }),
    fc.record({
      kind: fc.constantFrom("all" as const, "any" as const),
      of: fc.array(tie("tree"), { maxLength: 3 }),
    }),
  ),
})).tree;

test("a matcher answers as the specification says", () => {
  const rule = fc.record({
    labels,
    list: fc.array(requirement, { maxLength: 3 }),
    expression: fc.option(expression, { nil: undefined }),
  });
  fc.assert(
    fc.property(rule, labels, (matcher, given) => {
      const match = matches(matcher, given);
      const possible = [naive(matcher, given, true), naive(matcher, given, false)];
      if (match !== undefined) assert.deepEqual(possible, [match, match]);
      else assert.ok(Object.values(given).includes(LONG));
    }),
    { numRuns: 2000 },
  );
});

test("a value that is too long for its expression leaves the match open where nothing else decides it", () => {
  const untested: ExpressionRule = { kind: "label_matches", label: "long", regex: COSTLY };
  const is = (value: string): ExpressionRule => ({ kind: "label_equals", label: "t", value });
  const cases: readonly [ExpressionRule, Match][] = [
    [untested, undefined],
    [{ kind: "not", of: untested }, undefined],
    [{ kind: "all", of: [untested, is("yes")] }, undefined],
    [{ kind: "all", of: [untested, is("no")] }, false],
    [{ kind: "all", of: [is("no"), untested, is("yes")] }, false],
    [{ kind: "any", of: [untested, is("no")] }, undefined],
    [{ kind: "any", of: [untested, is("yes")] }, true],
    [{ kind: "any", of: [is("no"), untested, is("yes")] }, true],
    [{ kind: "all", of: [{ kind: "any", of: [untested, is("yes")] }, is("yes")] }, true],
  ];
  for (const [expression, match] of cases) {
    const given = { long: LONG, t: "yes" };
    assert.equal(matches(ruleOf({ expression }), given), match, JSON.stringify(expression));
  }
  const fixed = ruleOf({ labels: { t: "no" }, expression: untested });
  assert.equal(matches(fixed, { long: LONG, t: "yes" }), false);
});

test("rules of one control point share their expressions", () => {
  const slots = new LabelSlots();
  for (const label of ["a", "b"]) {
    compileMatcher(ruleOf({ expression: { kind: "label_matches", label, regex: COSTLY } }), slots);
  }
  assert.deepEqual([...slots.regexes.keys()], [COSTLY]);
});

test("every operator and an expression, over label values that distinguish them", () => {
  const cases: readonly [MatcherRule, readonly Given[], readonly Given[]][] = [
    [
      list("In", "gold", "silver"),
      [{ t: "gold" }, { t: "silver" }],
      [{ t: "" }, { t: "Gold" }, {}],
    ],
    [list("In"), [{ t: "" }], [{ t: "gold" }, {}]],
    [list("In", "g.ld", "s|b"), [{ t: "g.ld" }, { t: "s|b" }], [{ t: "gold" }, { t: "s" }]],
    [list("NotIn", "gold"), [{}, { t: "" }, { t: "bronze" }], [{ t: "gold" }]],
    [list("NotIn"), [{}, { t: "gold" }], [{ t: "" }]],
    [list("Exists", "ignored"), [{ t: "" }, { t: "x" }], [{}]],
    [list("DoesNotExist"), [{}], [{ t: "" }]],
    [ruleOf({ labels: { t: "" } }), [{ t: "" }], [{}, { t: " " }]],
    [
      ruleOf({ labels: { t: "gold", u: "1" } }),
      [{ t: "gold", u: "1" }],
      [{ t: "gold" }, { u: "1" }],
    ],
    [ruleOf({ expression: { kind: "all", of: [] } }), [{}, { t: "x" }], []],
    [ruleOf({ expression: { kind: "any", of: [] } }), [], [{}, { t: "x" }]],
    [
      ruleOf({ expression: { kind: "label_matches", label: "t", regex: "(?i)^GO" } }),
      [{ t: "gold" }],
      [{ t: "ago" }, {}],
    ],
  ];
  for (const [rule, yes, no] of cases) {
    for (const given of yes)
      assert.equal(matches(rule, given), true, JSON.stringify([rule, given]));
    for (const given of no)
      assert.equal(matches(rule, given), false, JSON.stringify([rule, given]));
  }
});

function list(operator: Requirement["operator"], ...values: string[]): MatcherRule {
  return ruleOf({ list: [{ key: "t", operator, values }] });
}

test("a matcher that matches every flow is omitted", () => {
  const always: readonly MatcherRule[] = [
    ruleOf({}),
    ruleOf({ expression: { kind: "all", of: [] } }),
    ruleOf({ expression: { kind: "not", of: { kind: "any", of: [] } } }),
  ];
  for (const rule of always) assert.equal(compileMatcher(rule, new LabelSlots()), undefined);
  assert.notEqual(compileMatcher(list("NotIn"), new LabelSlots()), undefined);
});

test("a label is read by its slot, header labels included", () => {
  const slots = new LabelSlots();
  compileMatcher(ruleOf({ labels: { "http.request.header.user_id": "7" } }), slots);
  assert.deepEqual(slots.schema.keys, [
    { name: "http.request.header.user_id", slot: 0, header: "user_id", baggage: false },
  ]);
});

test("a label that a classifier set counts like any other", () => {
  const slots = new LabelSlots();
  const matcher = compileMatcher(ruleOf({ labels: { t: "gold" } }), slots);
  const flow = new Labels(slots.schema, sourceOf({ t: "bronze" }));
  assert.equal(matcher?.(flow), false);
  flow.set(slots.of("t"), "gold", true);
  assert.equal(matcher?.(flow), true);
});

test("an expression that is not RE2 is refused", () => {
  const bad: ExpressionRule = { kind: "label_matches", label: "t", regex: "(a)\\1" };
  const rule = ruleOf({ expression: { kind: "all", of: [{ kind: "not", of: bad }] } });
  assert.throws(
    () => compileMatcher(rule, new LabelSlots()),
    (thrown) => thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT",
  );
});

test("an unknown operator is refused by name", () => {
  const rule: MatcherRule = JSON.parse(
    '{"labels":{},"list":[{"key":"t","operator":"Like","values":[]}]}',
  );
  assert.throws(() => compileMatcher(rule, new LabelSlots()), /"Like"/);
});
