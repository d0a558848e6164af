// Label enforcement gives the recorded results, and refuses what cannot be parsed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { enforceLabels } from "#promql/enforce-labels.ts";

interface Recorded {
  readonly query: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly enforced?: string;
  readonly error?: string;
}

const FILE = join(import.meta.dirname, "../golden/control-plane-promql/label-enforcement.json");
const recorded: readonly Recorded[] = JSON.parse(readFileSync(FILE, "utf8"));
const TENANT = [{ name: "tenant", value: "a" }];

test("there is something recorded", () => assert.ok(recorded.length > 60));

for (const { query, labels, enforced = "", error } of recorded) {
  test(`${query} with ${JSON.stringify(labels)}`, () => {
    const list = Object.entries(labels).map(([name, value]) => ({ name, value }));
    if (error === undefined) assert.equal(enforceLabels(query, list), enforced);
    else assert.throws(() => enforceLabels(query, list), { code: "INVALID_ARGUMENT" });
  });
}

for (const [query, enforced] of [
  ["a + b offset 5m * c", 'a{tenant="a"} + b{tenant="a"} offset 5m * c{tenant="a"}'],
  ["-1 ^ b", '-1 ^ b{tenant="a"}'],
  ["a * ignoring() group_left b", 'a{tenant="a"} * ignoring () group_left () b{tenant="a"}'],
  ["a{x='\"\\''}", 'a{tenant="a",x="\\"\'"}'],
  ['{"a.b"}', '{"a.b",tenant="a"}'],
  ['{"a", "b.c"="d"}', 'a{"b.c"="d",tenant="a"}'],
  ["a{tenant='b',tenant!='c'}", 'a{tenant="a"}'],
  ["deriv(a[90m:] @ end() offset 1w)", 'deriv(a{tenant="a"}[1h30m:] @ end() offset 1w)'],
  ["a[5m] offset 1h30m @ 5", 'a{tenant="a"}[5m] @ 5.000 offset 1h30m'],
  [
    "1e-7 * 1e21 * 0x10 * +Inf * a",
    '0.0000001 * 1000000000000000000000 * 16 * +Inf * a{tenant="a"}',
  ],
  ["info(a, {b='c'})", 'info(a{tenant="a"}, {b="c",tenant="a"})'],
  ['{"inf"}', '{"inf",tenant="a"}'],
  ['{"NaN", b="c"}', '{"NaN",b="c",tenant="a"}'],
  ['{"on"} + {"offset"}', '{"on",tenant="a"} + {"offset",tenant="a"}'],
  ['sum by ("inf", a) (a{inf="x"})', 'sum by ("inf", a) (a{inf="x",tenant="a"})'],
  ['{"sum"}', 'sum{tenant="a"}'],
  ["constructor[5m]", 'constructor{tenant="a"}[5m]'],
  ["a # note\n+ b", 'a{tenant="a"} + b{tenant="a"}'],
] as const) {
  test(query, () => assert.equal(enforceLabels(query, TENANT), enforced));
}

test("info without a selector would read the series of all tenants", () => {
  assert.throws(() => enforceLabels("info(a)", TENANT), /second argument/);
});
