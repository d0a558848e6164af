// Validates texts, numbers, durations and enums of a document, and says what was wanted where one is wrong.

import { parseSeconds } from "#base/duration.ts";
import { nearest, respelled } from "#base/text/spelling.ts";
import { judgeRegex, labelRuleFaults } from "#flow/rule-faults.ts";
import type { Report } from "../document/finding.ts";
import { digitsOf, doubleOf, INTEGER_RANGES, integerOf } from "../document/number.ts";
import { describe, type Path, quote, type Tree } from "../document/tree.ts";
import type { Range, Type } from "../language/field.ts";

/** Each method returns the value, or reports what is wrong and returns undefined. */
export class Scalars {
  readonly #report: Report;

  constructor(report: Report) {
    this.#report = report;
  }

  #refuse(tree: Tree, path: Path, wanted: string, got: string): undefined {
    this.#report.refuse(tree.at, path, wanted, got);
  }

  text(type: Type & { readonly kind: "text" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "text") {
      const hint = tree.kind === "number" || tree.kind === "boolean" ? " (put it in quotes)" : "";
      return this.#refuse(tree, path, `text${hint}`, describe(tree));
    }
    const { value } = tree;
    if (type.oneOf !== undefined && !type.oneOf.includes(value)) {
      const hint = this.#didYouMean(value, type.oneOf);
      return this.#refuse(tree, path, `one of ${type.oneOf.join(", ")}${hint}`, quote(value));
    }
    if (type.filled && value === "") {
      return this.#refuse(tree, path, "text that is not empty", quote(value));
    }
    if (type.form !== undefined && !new RegExp(type.form.pattern).test(value)) {
      return this.#refuse(tree, path, type.form.wanted, quote(value));
    }
    if (type.noSlash && value.includes("/")) {
      return this.#refuse(tree, path, "a name without `/`", quote(value));
    }
    if (type.regex) return this.#regex(value, tree, path);
    const wrong = type.labelName ? labelFaults(value) : "";
    if (wrong !== "") return this.#refuse(tree, path, "a label name", wrong);
    if (type.name && ODD_NAME.test(value)) {
      const remark = `${quote(value)} has blanks around it or control characters: only what is spelled exactly so matches`;
      this.#report.warn("unusual_value", () => tree.at, path, remark);
    }
    return value;
  }

  /** Judged by the code that will run the expression, so that what is accepted here compiles there. */
  #regex(value: string, tree: Tree, path: Path): unknown {
    if (!this.#report.spend(patternCost(value))) {
      const wanted = "patterns that are shorter, fewer, or repeat less";
      return this.#refuse(tree, path, wanted, quote(value));
    }
    const regex = judgeRegex(value);
    if ("fault" in regex)
      return this.#refuse(tree, path, "a regular expression (RE2)", regex.fault);
    const { cost, longest } = regex;
    if (longest < LONG_VALUE) {
      const remark = `values of more than ${longest} characters are not tested, because the expression takes up to ${cost} steps for each character`;
      this.#report.warn("costly_regex", () => tree.at, path, remark);
    }
    return value;
  }

  number(type: Type & { readonly kind: "number" }, tree: Tree, path: Path): unknown {
    const value = doubleOf(tree);
    const fits =
      Number.isFinite(value) ||
      type.special === "all" ||
      (type.special === "infinities" && !Number.isNaN(value));
    if (value === undefined || !fits) {
      const wanted = `a number${SPECIAL_NUMBERS[type.special ?? "none"]}`;
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    const written = integerOf(tree);
    if (written !== undefined && Number.isFinite(value) && written !== BigInt(value)) {
      const text = `${digitsOf(tree)} is read as ${BigInt(value)}: this number has 53 bits, the precision of a double`;
      this.#report.warn("unusual_value", () => tree.at, path, text);
    }
    return this.#within(type, value, tree, path);
  }

  integer(type: Type & { readonly kind: "integer" }, tree: Tree, path: Path): unknown {
    const value = integerOf(tree);
    const [least, most] = INTEGER_RANGES[type.size];
    if (value === undefined || value < least || value > most) {
      const wanted = `a whole number from ${least} to ${most} (${type.size})`;
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    return this.#within(type, type.size === "int64" ? value : Number(value), tree, path);
  }

  #within(range: Range, value: number | bigint, tree: Tree, path: Path): unknown {
    const { min, max, above } = range;
    const inside =
      (min === undefined || value >= min) &&
      (max === undefined || value <= max) &&
      (above === undefined || value > above);
    return inside
      ? value
      : this.#refuse(tree, path, `a number ${formatRange(range)}`, describe(tree));
  }

  duration(type: Type & { readonly kind: "duration" }, tree: Tree, path: Path): unknown {
    const ms = tree.kind === "text" ? parseSeconds(tree.value) : undefined;
    if (tree.kind === "text" && (LONG_SECONDS.test(tree.value) || (ms ?? 0) > MAX_MS)) {
      const got = `${quote(tree.value)}, which is longer`;
      return this.#refuse(
        tree,
        path,
        `a duration of at most ${MAX_MS / 1_000}s (10 000 years)`,
        got,
      );
    }
    if (ms === undefined) {
      const wanted = "a duration in seconds with the suffix s, such as 10s or 0.5s";
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    if (ms < 0 || (type.positive && ms === 0)) {
      const wanted = type.positive ? "a duration above 0s" : "a duration of at least 0s";
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    return ms;
  }

  enum(type: Type & { readonly kind: "enum" }, tree: Tree, path: Path): unknown {
    const value = enumValue(type, tree);
    if (value !== undefined) {
      const remark = type.remark?.(value);
      if (remark !== undefined) this.#report.warn("unusual_value", () => tree.at, path, remark);
      return value;
    }
    const hint = tree.kind === "text" ? this.#didYouMean(tree.value, [...type.numbers.keys()]) : "";
    return this.#refuse(tree, path, `a ${type.name} by name or number${hint}`, describe(tree));
  }

  /** A hint at the choice that was probably meant; "" when there is none. */
  #didYouMean(text: string, choices: readonly string[]): string {
    if (this.#report.full) return "";
    const near = respelled(text, choices) ?? nearest(text, choices);
    return near === undefined ? "" : `; did you mean ${near}?`;
  }
}

function enumValue({ numbers }: Type & { readonly kind: "enum" }, tree: Tree): number | undefined {
  if (tree.kind === "text") return numbers.get(tree.value);
  return [...numbers.values()].find((one) => tree.kind === "number" && one === tree.value);
}

const ODD_NAME = /^\s|\s$|\p{Cc}/u;

/** The words for what a number may be besides finite. */
const SPECIAL_NUMBERS = {
  none: "",
  infinities: ', or "Infinity", "-Infinity" as text',
  all: ', or "NaN", "Infinity", "-Infinity" as text',
} as const;

/** Seconds with too many digits to be parsed. */
const LONG_SECONDS = /^\d{13,}(?:\.\d+)?s$/;
/** About 10 000 years, the range of a protobuf Duration. */
const MAX_MS = 315_576_000_000_000;

export function formatRange({ min, max, above }: Range): string {
  const parts = [
    above === undefined ? "" : `above ${above}`,
    min === undefined ? "" : `of at least ${min}`,
    max === undefined ? "" : `of at most ${max}`,
  ];
  return parts.filter((part) => part !== "").join(" and ");
}

/** Values that are at most as long need no warning. Common servers accept no longer line of a request. */
const LONG_VALUE = 8_192;

/** RE2 refuses patterns that repeat anything more often than this. */
const MAX_REPEATS = 1_000;

/** Upper bound of the length of a pattern with its counted repetitions (`{2,30}`) written out. */
function patternCost(regex: string): number {
  let repeats = 1;
  for (const [, least = "", most = ""] of regex.matchAll(/\{(\d+)(?:,(\d*))?\}/g)) {
    repeats = Math.min(MAX_REPEATS, repeats * Math.max(1, Number(least), Number(most)));
  }
  return regex.length * repeats;
}

function labelFaults(label: string): string {
  const extractor = { kind: "from", from: "request.http.host" } as const;
  return labelRuleFaults({ label, telemetry: true, unreadableValue: "", extractor }).join("; ");
}
