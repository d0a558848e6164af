// Validation of queries: syntax, types, and what the local evaluator does not support.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Selector } from "#promql/syntax/ast.ts";
import { parse } from "#promql/syntax/parse.ts";
import { print } from "#promql/syntax/print.ts";
import { validateQuery } from "#promql/validate.ts";
import { Queries } from "./differential/queries.ts";

for (const [query, ...faults] of [
  ["", "column 1: wanted an expression, got the end"],
  ["sum(rate(", "column 10: wanted an expression, got the end"],
  ["sum(a", "column 6: wanted an operator, a comma or ), got the end"],
  ["a\n + )", "line 2 column 4: wanted an expression, got )"],
  ["5 5", "column 3: wanted an operator or the end, got 5"],
  ["a[5 m]", "column 5: wanted a duration such as 5m, and ], got m"],
  ["a[0s]", "column 3: wanted a duration above 0, got 0s"],
  [
    "a{x=}",
    "column 5: wanted a label matcher (name, one of = != =~ !~, a string in quotes) or }, got }",
  ],
  ['a{x="\\q"}', "column 5: the string has \\q, which is not a valid escape"],
  ["raet(a[5m])", "column 1: wanted a function, got raet; did you mean rate?"],
  ["a{__name__='b'}", "column 1: wanted one name of the metric, got a and __name__"],
  ["a offset 5m offset 5m", "column 1: wanted one offset, got two"],
  ["sum(a) offset 5m", "column 1: offset must follow a selector, a range or a subquery"],
  ["(a)[5m]", "column 1: a range [5m] must follow a selector"],
  ["a offset 1m [5m]", "column 1: a range [5m] must come before the selector's modifiers"],
  [
    "a[5m]",
    "column 1: wanted an instant vector or a number, got a range; a function such as rate makes one of it",
  ],
  ["'x'", "column 1: wanted an instant vector or a number, got a string"],
  ["rate(a)", "column 6: argument 1 of rate: wanted a range such as [5m], got an instant vector"],
  ["sum(a[5m])", "column 5: argument 1 of sum: wanted an instant vector, got a range such as [5m]"],
  ["clamp(a)", "column 1: clamp: wanted 3 arguments, got 1"],
  ["round(a, 1, 2)", "column 1: round: wanted 1 to 2 arguments, got 3"],
  ["topk(a)", "column 1: topk: wanted 2 arguments, got 1"],
  ["topk('x', a)", "column 6: argument 1 of topk: wanted a number, got a string"],
  ["a + 'x'", "column 5: the right side of +: wanted a number or an instant vector, got a string"],
  ["1 == 2", "column 1: ==: a comparison of two numbers needs bool"],
  ["a + bool b", "column 1: bool: wanted a comparison, got +"],
  ["a and 1", "column 1: and: wanted an instant vector on both sides, got a number"],
  ["a + on(x) 1", "column 1: on: wanted an instant vector on both sides of +"],
  ["a and on(x) group_left b", "column 1: group_left: not for and"],
  ["a + on(x) group_left(x) b", "column 1: x: wanted in on or in group_left, got in both"],
  ["{x=''}", "column 1: wanted at least one matcher that an empty value does not fit"],
  ["{x=~'.*'}", "column 1: wanted at least one matcher that an empty value does not fit"],
  [
    "a{x=~'('}",
    "column 1: x=~: wanted an RE2 expression: error parsing regexp: missing closing ): `(`",
  ],
  ["-(", "column 3: wanted an expression, got the end"],
  ["constructor )", "column 13: wanted an operator or the end, got )"],
  ["constructor(a)", "column 1: wanted a function, got constructor"],
] as const) {
  test(`refused: ${query}`, () => {
    assert.deepEqual(validateQuery(query, "prometheus"), faults);
    assert.equal(validateQuery(query, "own")[0], faults[0]);
  });
}

for (const query of [
  "up",
  "retry:timeout",
  'sum(rate(http_requests_total{code=~"5.."}[5m])) by (job) / on(job) group_left sum by (job) (b)',
  "histogram_quantile(0.9, sum by (le) (rate(b_bucket[1m])))",
  "a > bool 1 or vector(0) unless on() c offset 1h30m",
  "label_replace(a, 'x', '$1', 'y', '(.*)')",
  "time() - timestamp(a) # age",
  "2 ^ -1 % 5m",
  "absent(a{b='c'}) + scalar(a)",
  "constructor",
  "rate(Constructor[5m]) + __proto__{constructor='__proto__'}",
  "toString + hasOwnProperty:constructor",
]) {
  test(`valid in both dialects: ${query}`, () => {
    assert.deepEqual(validateQuery(query, "prometheus"), []);
    assert.deepEqual(validateQuery(query, "own"), []);
  });
}

for (const [query, ...unknown] of [
  ["max_over_time(rate(m[1m])[10m:30s])", "a subquery"],
  ["a @ 1700000000", "modifier @"],
  ["deriv(a[5m]) + hour()", "function deriv", "function hour"],
  ["limitk(3, a)", "aggregation limitk"],
  ["histogram_avg(a)", "function histogram_avg"],
  ["rate(a[5m] smoothed)", "modifier smoothed"],
  ["rate(a[5m+1m])", "computed duration 5m+1m"],
  ["a offset -5m", "negative offset"],
  ["a </ b", "operator </"],
  ["a + fill(0) b", "modifier fill"],
] as const) {
  test(`only a server supports: ${query}`, () => {
    assert.deepEqual(validateQuery(query, "prometheus"), []);
    assert.deepEqual(
      validateQuery(query, "own").map(
        (each) => /^column \d+: (.*) is not supported/.exec(each)?.[1],
      ),
      unknown,
    );
  });
}

test("constant arguments are validated too, which a server checks only at evaluation", () => {
  assert.match(validateQuery("label_replace(a, 'x', '', 'y', '(')", "own").join(), /RE2/);
  assert.match(
    validateQuery("label_replace(a, '9', '', 'y', '')", "own").join(),
    /name of a label/,
  );
  assert.match(validateQuery("count_values('', a)", "own").join(), /name of a label/);
});

for (const [query, canonical] of [
  ["a - b offset 5m * c", "a - (b offset 5m * c)"],
  ["-1 ^ 2", "-(1 ^ 2)"],
  ["2 ^ 3 ^ 2", "2 ^ (3 ^ 2)"],
  ["a or b and c == d + e * f ^ g", "a or (b and (c == (d + (e * (f ^ g)))))"],
  ["a - b - c", "(a - b) - c"],
] as const) {
  test(`${query} is ${canonical}`, () => {
    assert.equal(shown(query), shown(canonical));
  });
}

const NOTHING: Selector = {
  kind: "selector",
  index: 0,
  from: 0,
  name: "",
  matchers: [],
  offset: undefined,
  at: undefined,
  edges: undefined,
};

/** The tree without positions, parentheses and the order of matchers. */
function shown(text: string): string {
  const places = new Set(["from"]);
  return JSON.stringify(parse(text), (key, value) => {
    if (places.has(key)) return undefined;
    if (Array.isArray(value) && key === "matchers")
      return value.map((each) => print({ ...NOTHING, matchers: [each] })).sort();
    return value?.kind === "paren" ? value.of : value;
  });
}

test("a printed query parses to the same tree", () => {
  const queries = new Queries(seededChance(7));
  for (let count = 0; count < 300; count++) {
    const text = queries.query();
    assert.equal(shown(print(parse(text))), shown(text), text);
  }
});

test("arbitrary text is at worst refused", () => {
  const words = fc.constantFrom(
    ..."( ) [ ] { } , + - ^ == and by on offset @ a sum rate 5m 1 'x' \" \\ # : \n x= =~".split(
      " ",
    ),
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 12 }), fc.string(), (some, any) => {
      for (const text of [some.join(" "), some.join(""), any]) {
        validateQuery(text, "own");
        try {
          print(parse(text));
        } catch (thrown) {
          assert.ok(thrown instanceof Fault && thrown.code === "INVALID_ARGUMENT", String(thrown));
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("a query that nests too deep is refused", () => {
  for (const text of [
    `${"(".repeat(1_000)}a${")".repeat(1_000)}`,
    "a+".repeat(1_000).concat("a"),
    "-".repeat(1_000).concat("a"),
  ]) {
    assert.match(validateQuery(text, "prometheus").join(), /wanted at most 500 levels/);
  }
});

const sum = (terms: number) => Array.from({ length: terms }, (_, at) => `metric_${at}`).join(" + ");

test("a chain that is too long for the parser is reported as such, and a wrong token as wrong", () => {
  const long = /^column \d+: wanted at most \d+ operators in a row here, got more; parentheses/;
  assert.deepEqual(validateQuery(sum(250), "prometheus"), []);
  assert.deepEqual(validateQuery(`(${sum(240)}) + (${sum(240)})`, "prometheus"), []);
  for (const text of [sum(480), `sum(${sum(480)})`, `a / (${sum(480)}`]) {
    assert.match(validateQuery(text, "prometheus").join(), long);
  }
  assert.match(
    validateQuery(`${sum(250)} + )`, "prometheus").join(),
    /wanted an expression, got \)$/,
  );
});

test("length, depth and findings of a query are bounded", () => {
  const most = 65_536;
  const text = `"${"x".repeat(most - 2)}"`;
  assert.match(validateQuery(text, "own").join(), /got a string/);
  assert.deepEqual(validateQuery(`${text} `, "own"), [
    `column 1: wanted at most ${most} characters, got ${most + 1}`,
  ]);
  const faults = validateQuery(`sort_by_label(a, ${Array(10_000).fill("b[5m]").join(",")})`, "own");
  assert.equal(faults.length, 21);
  assert.match(faults[19] ?? "", /^column 132: argument 21 /);
  // The rest of the arguments, and the function, which only a server knows.
  assert.equal(faults[20], "and 9981 more");
});
