// The work that regular expressions do: bounded for each value by what was known when the expression was compiled, and for
// each check. Work is counted in calls inside the library's engines, not in time.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { EMPTY_SCHEMA, Labels } from "#flow/label.ts";
import { compileProgram, engineOf } from "#flow/match/engine.ts";
import { compileRegex } from "#flow/match/regex.ts";
import { WORK_PER_CHECK, type Work } from "#flow/match/work.ts";
import { countRegexWork } from "../../kit/attack/regex-work.ts";
import { claims } from "../../kit/sluice/flow.ts";

/** Expressions as policies have them. */
const USUAL = [
  "(?i)(chrome|firefox)/[0-9]+",
  "^/api/v[0-9]+/users/.*/orders",
  "^/api/v[0-9]+/users/[^/]+(/orders/[0-9]+)?(\\?.*)?$",
  "(^|; )tier=(gold|silver)(;|$)",
  "[a-z0-9.]+@[a-z0-9.]+\\.com$",
  "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
  "(?i)^bearer [A-Za-z0-9._-]+$",
  "(?i)\\b(googlebot|bingbot|crawler|spider)\\b",
  ".*\\.(jpe?g|png|gif|css|js|svg|woff2?|ico|webp)(\\?.*)?$",
  "(?m)^x-[a-z]+:.*$",
];
/** Expressions whose automata are too large. */
const COSTLY = [
  "a[ab]{20}[0-9]",
  "a[ab]{400}[0-9]",
  "a[ab]{900}[0-9]",
  "a(a?b?){40}[0-9]",
  "((a|b)*(a|b)*)*[ab0-9]{60}x",
  "\\pL(\\pL|\\pN){40}[0-9]",
  "a(\\b\\w|\\B\\w){40}[0-9]",
];

/** Values that lead engines astray: long runs of what these expressions are made of, and what prefilters look for. */
const value = fc
  .array(fc.constantFrom("a", "ab", "b", "0", "-", "é", "中", "😀", " ", "/", "bot", "x", "."), {
    maxLength: 400,
  })
  .map((parts) => `${parts.join("")}a@b.com tier=gold 12345678-`);

test("usual expressions take one step for each character, and no state is made while values are tested", (t) => {
  const engines = USUAL.map((regex) => engineOf(compileProgram(regex)));
  assert.deepEqual(
    engines.map(({ cost }) => cost),
    USUAL.map(() => 1),
  );
  const work = countRegexWork(t);
  fc.assert(
    fc.property(value, (text) => {
      for (const engine of engines) engine.test(text);
    }),
    { numRuns: 200 },
  );
  assert.deepEqual(work, { states: 0, visits: 0 });
});

test("other expressions do work in proportion to what they cost", (t) => {
  const engines = COSTLY.map((regex) => engineOf(compileProgram(regex)));
  const work = countRegexWork(t);
  fc.assert(
    fc.property(value, (text) => {
      for (const [at, { test: matches, cost }] of engines.entries()) {
        work.visits = 0;
        matches(text);
        const most = 3 * cost * (text.length + 1);
        assert.ok(work.visits <= most, `${COSTLY[at]}: ${work.visits} for ${text}`);
      }
    }),
    { numRuns: 50 },
  );
  assert.equal(work.states, 0);
});

/** Work that is never refused, and how much was done. */
function meter(): Work & { spent: number } {
  return {
    spent: 0,
    spend(units) {
      this.spent += units;
      return true;
    },
  };
}

test("a value is tested up to the length that is known when the expression is compiled", () => {
  for (const pattern of [...USUAL, ...COSTLY]) {
    const { test: matches, longest } = compileRegex(pattern);
    const labels = () => new Labels(EMPTY_SCHEMA, claims({}));
    assert.equal(typeof matches("a".repeat(longest), labels()), "boolean", pattern);
    assert.equal(matches("a".repeat(longest + 1), labels()), undefined, pattern);
  }
  assert.equal(compileRegex("a[ab]{900}[0-9]").longest, 72);
  // Classes of many ranges cost twice as much, in a search and in an automaton.
  assert.equal(compileRegex("\\pL(\\pL){40}[0-9]").longest, Math.floor(65_536 / (124 + 41)));
  assert.equal(compileRegex("^[^\\pL]").longest, WORK_PER_CHECK / 4);
  assert.equal(compileRegex("^/api/(v1|v2)/").longest, WORK_PER_CHECK / 2);
  assert.equal(compileRegex("^(gold|silver)$").longest, Number.POSITIVE_INFINITY);
});

test("comparisons and remembered answers cost no work", () => {
  const none = { spend: () => false };
  assert.equal(compileRegex("^(gold|silver)$").test("gold", none), true);
  const { test: matches } = compileRegex("a[ab]{20}[0-9]");
  const [short, long] = [`a${"b".repeat(20)}1`, "ab".repeat(500)];
  for (const text of [short, long]) assert.equal(matches(text, none), undefined);
  const work = meter();
  for (const text of [short, long, short, long]) matches(text, work);
  assert.equal(work.spent, 24 * (short.length + long.length));
  assert.equal(matches(short, none), true);
  assert.equal(matches(long, none), false);
});

test("an expression that is too large is refused with its cost and the limit", () => {
  assert.throws(() => compileRegex("a[ab]{1000}[abc]{1000}[0-9]"), {
    code: "INVALID_ARGUMENT",
    message:
      /^regex "a\[ab\].*" takes up to 2004 steps for each character; at most 2000 are allowed, because/,
  });
  // Comparisons cost nothing.
  const words = Array.from({ length: 500 }, (_, at) => `word${at}`).join("|");
  assert.equal(compileRegex(`^(${words})$`).cost, 0);
});

test("all expressions of a check together do no more work than one check may", () => {
  const units = fc.array(fc.nat(WORK_PER_CHECK), { maxLength: 100 });
  fc.assert(
    fc.property(units, (all) => {
      const labels = new Labels(EMPTY_SCHEMA, claims({}));
      const done = all.filter((one) => labels.spend(one)).reduce((sum, one) => sum + one, 0);
      assert.ok(done < WORK_PER_CHECK, `${done}`);
    }),
  );
});

test("a long value takes no more than half of what is left, so short ones are tested after it", () => {
  const labels = new Labels(EMPTY_SCHEMA, claims({}));
  for (let left = WORK_PER_CHECK; left > 2_048; left /= 2) {
    assert.equal(labels.spend(left / 2 + 1), false);
    assert.equal(labels.spend(left / 2), true);
  }
  const { test: matches } = compileRegex("a[ab]{20}[0-9]");
  assert.equal(matches(`a${"b".repeat(20)}1`, labels), true);
  assert.equal(matches("b".repeat(50), labels), undefined);
});
