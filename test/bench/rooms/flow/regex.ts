// Measures how long regular expressions can keep one check busy: a dozen of the same kind test values that are as long as the
// work of the check allows, and made to take long. Prints the worst kinds, for programs of several sizes. Beside them, how
// long an expression takes to compile.
// `node test/bench/rooms/flow/regex.ts`

import { seededChance } from "#base/chance.ts";
import { EMPTY_SCHEMA, Labels } from "#flow/label.ts";
import { compileRegex, type Regex } from "#flow/match/regex.ts";
import { claims } from "../../../kit/sluice/flow.ts";

const ROUNDS = 30;
const REPEATS = [3, 10, 40, 150, 250];
const SHOWN = 15;
const GOAL_MS = 5;

/** Expressions that repeat something N times, with the characters of values that take long. */
const KINDS: readonly (readonly [regex: string, characters: string])[] = [
  ["a[ab]{N}[0-9]", "ab"],
  ["a(a|b|[cd]){N}[0-9]", "ab"],
  ["a(a?b?){N}[0-9]", "ab"],
  ["(?s)a(.?){N}[0-9]", "ab"],
  ["(?i)a(a|b|k|s){N}[0-9]", "ab"],
  ["((a|b)*(a|b)*)*[0-9ab]{N}x", "ab"],
  ["\\pL(\\pL){N}[0-9]", "aéжλ中あ한ß"],
  ["\\pL(\\pL|\\pN){N}[0-9]", "aéжλ中あ한ß"],
  ["\\pL(\\b|\\pL){N}[0-9]", "aéжλ中あ한ß"],
  ["\\p{Greek}?\\pL(\\p{L}){N}[0-9]", "aéжλ中あ한ß"],
  ["a(\\b\\w|\\B\\w){N}[0-9]", "ab"],
  ["[^0-9]([^0-9]){N}[0-9]", "😀😁𝒜b"],
  ["(?m)a(^|$|a|b){N}[0-9]", "ab"],
  ["^(((((((((([a-z]))))))))))*[0-9]{N}$", "abc"],
  ["(chrome|firefox)/[0-9]{N}!", "chrome/1"],
];

const shown = (ms: number) => ms.toFixed(2);
const print = (line: string) => process.stdout.write(`${line}\n`);

const chance = seededChance(1);

/** Text of that many UTF-16 units. */
function textOf(characters: readonly string[], length: number): string {
  let text = "";
  while (text.length < length) text += characters[Math.floor(chance() * characters.length)];
  return text.slice(0, length);
}

/** Milliseconds of one check in which these expressions do all the work that it may do. */
function check(regexes: readonly Regex[], characters: readonly string[]): number {
  const labels = new Labels(EMPTY_SCHEMA, claims({}));
  // Each test may do half of what those before it left.
  const texts = regexes.map(({ longest }, at) => textOf(characters, longest >> at));
  const start = performance.now();
  for (const [at, { test }] of regexes.entries()) test(texts[at] ?? "", labels);
  return performance.now() - start;
}

const worst: { line: string; median: number }[] = [];
for (const [kind, characters] of KINDS) {
  for (const times of REPEATS) {
    const text = kind.replace("{N}", `{${times}}`);
    const compiling = performance.now();
    const first = compileRegex(text);
    const compiled = performance.now() - compiling;
    const regexes = [first, ...Array.from({ length: 11 }, () => compileRegex(text))];
    const took = Array.from({ length: ROUNDS }, () => check(regexes, [...characters]));
    took.sort((a, b) => a - b);
    const median = took[ROUNDS / 2] ?? 0;
    const figures = [first.cost, first.longest, ...[median, took.at(-1) ?? 0, compiled].map(shown)];
    const line = `${text.padEnd(44)}${figures.map((each) => String(each).padStart(9)).join("")}`;
    worst.push({ line, median });
  }
}
worst.sort((a, b) => b.median - a.median);
print(`goal: a check takes at most ${GOAL_MS} ms`);
print(`${"expression".padEnd(44)}     cost  longest   median  slowest compiled (ms)`);
for (const { line } of worst.slice(0, SHOWN)) print(line);
