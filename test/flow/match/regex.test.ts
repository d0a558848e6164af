import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { compileRegex } from "#flow/match/regex.ts";
import { assertTwice } from "../../kit/properties/twice.ts";

/** The test of an expression without a bound on its work. */
function testOf(pattern: string) {
  const regex = compileRegex(pattern);
  return (value: string) => regex.test(value, { spend: () => true });
}

const texts = [
  "",
  "a",
  "b",
  "ab",
  "ba",
  "A",
  ".",
  "a.b",
  "|",
  "\\",
  "^",
  "$",
  "\n",
  "a\n",
  "é",
  "😀",
];
const piece = fc.constantFrom(
  "a",
  "b",
  "ab",
  "A",
  "é",
  "😀",
  "\n",
  "-",
  " ",
  "/",
  "\\.",
  "\\|",
  "\\\\",
  "\\^",
  "\\$",
  "\\/",
  "\\(",
  "\\)",
  "\\d",
  "\\z",
  "\\A",
  "\\pL",
  "|",
  "|",
  "^",
  "$",
  "(",
  ")",
  "(?:",
  "(?i)",
  ".",
  "a*",
  "[ab]",
  "{",
  "}",
  "]",
  "x{2}",
);
const alternatives = fc
  .array(fc.constantFrom("a", "b", "ab", "\\.", "\\|", "", "é", "/", "^a", "b$"), { maxLength: 12 })
  .map((parts) => parts.join("|"));
const shaped = fc
  .tuple(fc.constantFrom("", "^"), fc.constantFrom("", "(", "(?:"), alternatives)
  .chain(([start, open, body]) =>
    fc.constantFrom("", "$").map((end) => `${start}${open}${body}${open === "" ? "" : ")"}${end}`),
  );
const regex = fc.oneof(
  shaped,
  fc.array(piece, { maxLength: 6 }).map((parts) => parts.join("")),
);
const input = fc.oneof(
  fc.array(fc.constantFrom(...texts), { maxLength: 4 }).map((parts) => parts.join("")),
  fc.string({ unit: "binary", maxLength: 6 }),
);

test("literals and memo answer as the engine does", () => {
  let compiled = 0;
  assertTwice(
    fc.property(regex, fc.array(input, { minLength: 1, maxLength: 8 }), (pattern, values) => {
      let engine: RE2JS;
      try {
        engine = RE2JS.compile(pattern);
      } catch {
        assert.throws(() => compileRegex(pattern));
        return;
      }
      compiled++;
      const test = testOf(pattern);
      for (const value of [...values, ...values]) {
        assert.equal(test(value), engine.test(value), JSON.stringify([pattern, value]));
      }
    }),
    6000,
  );
  assert.ok(compiled > 1000, `only ${compiled} patterns compiled`);
});

test("the dialect is RE2", () => {
  const yes: readonly [string, string][] = [
    ["(?i)gold", "GOLD"],
    ["^[[:alpha:]]+$", "abc"],
    ["(?P<n>a)b", "ab"],
    ["\\pL", "é"],
    ["(?s)a.b", "a\nb"],
    ["(?m)^b$", "a\nb"],
    ["\\Qa.b\\E", "xa.b"],
    ["b", "abc"],
  ];
  for (const [pattern, value] of yes) assert.equal(testOf(pattern)(value), true, pattern);
  const no: readonly [string, string][] = [
    ["gold", "GOLD"],
    ["a.b", "a\nb"],
    ["^a$", "a\n"],
    ["^b$", "a\nb"],
    ["\\Qa.b\\E", "axb"],
  ];
  for (const [pattern, value] of no) assert.equal(testOf(pattern)(value), false, pattern);
  for (const pattern of [
    "(a)\\1",
    "(?=a)",
    "(?!a)",
    "(?<=a)b",
    "a**",
    "a{1001}",
    "\\C",
    "(",
    "[z-a]",
  ]) {
    assert.throws(() => compileRegex(pattern), { code: "INVALID_ARGUMENT" }, pattern);
  }
});

test("a lone surrogate is not found inside a whole character", () => {
  assert.equal(testOf("\ud83d")("😀"), false);
  assert.equal(testOf("\ud83d")("a\ud83d"), true);
  assert.equal(testOf("\ude00$")("😀"), false);
  assert.equal(testOf("^😀$")("😀"), true);
});

test("a refusal shows the expression and the reason", () => {
  assert.throws(() => compileRegex("(a)\\1"), {
    message: 'regex "(a)\\1" is not RE2: invalid escape sequence: `\\1`',
  });
});

test("answers stay correct with more values than the memo holds", () => {
  const even = testOf("^[0-9]*[02468]$");
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 2000; n++) assert.equal(even(String(n)), n % 2 === 0);
  }
});

test("time grows linearly with the length of the value", () => {
  const evil = testOf("^(a+)+$");
  assert.equal(evil(`${"a".repeat(200_000)}b`), false);
  const wide = testOf("(a|b)*a(a|b){16}c");
  assert.equal(wide(`${"ab".repeat(20_000)}`), false);
  assert.equal(wide(`${"ab".repeat(2000)}a${"b".repeat(16)}c`), true);
});
