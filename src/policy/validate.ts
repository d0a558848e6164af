// Validates a document against the tables of the language. Reports all findings at once, each with its place,
// what was wanted and what was got. A valid document is returned as typed data with defaults filled in.

import { parseSeconds } from "#base/duration.ts";
import { nearest } from "#base/text/spelling.ts";
import { labelRuleFaults, matcherFaults } from "#flow/rule-faults.ts";
import type { Report } from "./document/finding.ts";
import { digitsOf, doubleOf, INTEGER_RANGES, integerOf } from "./document/number.ts";
import {
  describe,
  locate,
  type Path,
  plain,
  quote,
  type Tree,
  type TreeEntry,
} from "./document/tree.ts";
import type { Field, Message, Range, Setting, Type } from "./language/field.ts";

/** Values that replace defaults of fields. */
type Defaults = Readonly<Partial<Record<Setting, string>>>;

/** Undefined when the document is invalid. `path` is the place of `tree` in its document. */
export function validate<V>(
  message: Message<V>,
  tree: Tree,
  path: Path,
  report: Report,
  defaults: Defaults = {},
): V | undefined {
  const before = report.faults;
  const value = new Validator(report, defaults).message(message, tree, path) as V;
  return report.faults === before ? value : undefined;
}

const PUBLISHED = "published; agents of this version do not act on it";

/** Invalid values are undefined or left out of the result, which is discarded once there is a finding. */
class Validator {
  readonly #report: Report;
  readonly #defaults: Defaults;

  constructor(report: Report, defaults: Defaults) {
    this.#report = report;
    this.#defaults = defaults;
  }

  #refuse(tree: Tree, path: Path, wanted: string, got: string): undefined {
    this.#report.refuse(tree.at, path, wanted, got);
  }

  message(message: Message, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") return this.#refuse(tree, path, "an object", describe(tree));
    const before = this.#report.faults;
    const meant = this.#unknownKeys(message, tree, path);
    const unknown = this.#report.faults > before;
    const value: Record<string, unknown> = {};
    const present = new Map<string, string[]>();
    for (const [name, field] of Object.entries(message.fields)) {
      const entry = tree.entries.find(({ key }) => key === name);
      if (entry === undefined || entry.value.kind === "null") {
        // Absent arms of a oneof are left out: a component has dozens, which would take a kilobyte of each policy.
        const byDefault = (field.setting && this.#defaults[field.setting]) ?? field.default;
        if (field.group === undefined || byDefault !== undefined) value[name] = byDefault;
        if (field.required && !meant.has(name)) {
          this.#refuse(tree, [...path, name], `a value: ${name} is required`, "nothing");
        }
        continue;
      }
      const at = [...path, name];
      if (field.group !== undefined) {
        present.set(field.group, [...(present.get(field.group) ?? []), name]);
      }
      this.#warn(field, entry, at);
      value[name] = this.#field(field, entry.value, at);
    }
    this.#groups(message, tree, path, present, unknown);
    if (this.#report.faults === before) {
      message.check?.(
        value,
        (inner, wanted, got) => {
          this.#report.refuse(() => locate(tree, inner), [...path, ...inner], wanted, got);
        },
        (code, inner, text) =>
          this.#report.warn(code, () => locate(tree, inner), [...path, ...inner], text),
      );
    }
    return value;
  }

  #warn(field: Field<unknown>, { keyAt: at, value }: TreeEntry, path: Path): void {
    // Documents with every default written out name deprecated fields too, without using them.
    const unused =
      (value.kind === "text" && value.value === "") ||
      (value.kind === "list" && value.items.length === 0);
    if (field.deprecated !== undefined && !unused) {
      const instead = field.deprecated === "" ? "" : `; write ${field.deprecated} instead`;
      this.#report.warn("deprecated", at, path, `deprecated${instead}`);
    }
    const empty =
      (value.kind === "list" && value.items.length === 0) ||
      (value.kind === "map" && value.entries.length === 0);
    if (field.published && !empty) this.#report.warn("not_run", at, path, PUBLISHED);
  }

  /** Refuses unknown keys; returns the fields that were probably meant, so that these are not reported missing. */
  #unknownKeys(
    message: Message,
    tree: Tree & { readonly kind: "map" },
    path: Path,
  ): ReadonlySet<string> {
    const names = Object.keys(message.fields);
    const meant = new Set<string>();
    if (path.length === 0 && isForeign(tree, names)) {
      const wanted = `a policy, which has ${names.join(" or ")}, or a Kubernetes object around one`;
      this.#refuse(tree, path, wanted, "an object without any of their keys");
      return meant;
    }
    for (const { key, keyAt } of tree.entries) {
      if (Object.hasOwn(message.fields, key)) continue;
      const got = `the unknown key ${quote(key)}`;
      if (this.#report.full) {
        this.#report.refuse(keyAt, [...path, key], "a known key", got);
        continue;
      }
      const camel = spelling(key, names);
      const near = camel ?? nearest(key, names);
      if (near !== undefined) meant.add(near);
      const wanted =
        camel !== undefined
          ? `${camel} (keys are snake_case)`
          : near !== undefined
            ? `a key of ${message.name}; did you mean ${near}?`
            : `a key of ${message.name}: ${names.join(", ")}`;
      this.#report.refuse(keyAt, [...path, key], wanted, got);
    }
    return meant;
  }

  #groups(
    message: Message,
    tree: Tree,
    path: Path,
    present: ReadonlyMap<string, readonly string[]>,
    unknown: boolean,
  ): void {
    const groups = new Map<string, string[]>();
    for (const [name, { group }] of Object.entries(message.fields)) {
      if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), name]);
    }
    for (const [group, members] of groups) {
      const found = present.get(group) ?? [];
      const what = message.oneOf[group];
      const wanted = `one ${what ?? group} out of ${members.join(", ")}`;
      if (found.length > 1) this.#refuse(tree, path, wanted, found.join(" and "));
      // When an unknown key was refused, it was probably meant to be the missing member.
      else if (found.length === 0 && what !== undefined && !unknown) {
        this.#refuse(tree, path, wanted, "none");
      }
    }
  }

  #field(field: Field<unknown>, tree: Tree, path: Path): unknown {
    const before = this.#report.faults;
    const value = this.#type(field.type, tree, path);
    const empty = value === "" || value === 0;
    if (
      field.required &&
      empty &&
      field.type.kind !== "duration" &&
      this.#report.faults === before
    ) {
      const wanted = value === 0 ? "a number other than 0" : "text that is not empty";
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    return value;
  }

  #type(type: Type, tree: Tree, path: Path): unknown {
    switch (type.kind) {
      case "message":
        return this.message(type.of(), tree, path);
      case "list":
        return this.#list(type, tree, path);
      case "map":
        return this.#map(type, tree, path);
      case "text":
        return this.#text(type, tree, path);
      case "number":
        return this.#number(type, tree, path);
      case "integer":
        return this.#integer(type, tree, path);
      case "boolean":
        return tree.kind === "boolean"
          ? tree.value
          : this.#refuse(tree, path, "true or false", describe(tree));
      case "duration":
        return this.#duration(type, tree, path);
      case "enum":
        return this.#enum(type, tree, path);
      case "object":
        return tree.kind === "map"
          ? plain(tree)
          : this.#refuse(tree, path, "an object", describe(tree));
    }
  }

  #list(type: Type & { readonly kind: "list" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "list") return this.#refuse(tree, path, "a list", describe(tree));
    if (type.filled && tree.items.length === 0) {
      return this.#refuse(tree, path, "at least one element", "an empty list");
    }
    return tree.items.map((item, index) => this.#field(type.of, item, [...path, index]));
  }

  #map(type: Type & { readonly kind: "map" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") return this.#refuse(tree, path, "an object", describe(tree));
    if (type.filled && tree.entries.length === 0) {
      return this.#refuse(tree, path, "at least one entry", "an empty object");
    }
    const value = new Map<string, unknown>();
    for (const entry of tree.entries) {
      const at = [...path, entry.key];
      this.#type(type.keys, { kind: "text", at: entry.keyAt, value: entry.key }, at);
      value.set(entry.key, this.#field(type.of, entry.value, at));
    }
    return value;
  }

  #text(type: Type & { readonly kind: "text" }, tree: Tree, path: Path): unknown {
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
    if (type.noSlash && value.includes("/")) {
      return this.#refuse(tree, path, "a name without `/`", quote(value));
    }
    if (type.regex && !this.#report.spend(patternCost(value))) {
      return this.#refuse(
        tree,
        path,
        "patterns that are shorter, fewer, or repeat less",
        quote(value),
      );
    }
    const wrong = type.regex ? patternFaults(value) : type.labelName ? labelFaults(value) : "";
    if (wrong !== "") {
      const wanted = type.regex ? "a regular expression (RE2)" : "a label name";
      return this.#refuse(tree, path, wanted, wrong);
    }
    return value;
  }

  #number(type: Type & { readonly kind: "number" }, tree: Tree, path: Path): unknown {
    const value = doubleOf(tree);
    if (value === undefined) {
      const wanted = 'a number, or "NaN", "Infinity", "-Infinity" as text';
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    const written = integerOf(tree);
    if (written !== undefined && Number.isFinite(value) && written !== BigInt(value)) {
      const text = `${digitsOf(tree)} is read as ${BigInt(value)}: this number has 53 bits, the precision of a double`;
      this.#report.warn("unusual_value", () => tree.at, path, text);
    }
    return this.#within(type, value, tree, path);
  }

  #integer(type: Type & { readonly kind: "integer" }, tree: Tree, path: Path): unknown {
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

  #duration(type: Type & { readonly kind: "duration" }, tree: Tree, path: Path): unknown {
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

  #enum(type: Type & { readonly kind: "enum" }, tree: Tree, path: Path): unknown {
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
    const near = spelling(text, choices) ?? nearest(text, choices);
    return near === undefined ? "" : `; did you mean ${near}?`;
  }
}

function enumValue({ numbers }: Type & { readonly kind: "enum" }, tree: Tree): number | undefined {
  if (tree.kind === "text") return numbers.get(tree.value);
  return [...numbers.values()].find((one) => tree.kind === "number" && one === tree.value);
}

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

/** Checked by the code that will run the pattern, so that what is accepted here compiles there. */
function patternFaults(regex: string): string {
  const expression = { kind: "label_matches", label: "", regex } as const;
  return matcherFaults({ labels: {}, list: [], expression }).join("; ");
}

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

/** The name that `key` spells in another case style (`constantOutput` for `constant_output`). */
function spelling(key: string, names: readonly string[]): string | undefined {
  const bare = (text: string): string => text.replaceAll(/[_-]/g, "").toLowerCase();
  const wanted = bare(key);
  return names.find((name) => bare(name) === wanted);
}

/**
 * True for an object that has none of these keys, not even misspelt. Such a document may be anything, as behind a link
 * to another file, so the finding does not repeat its keys.
 */
function isForeign(
  { entries }: Tree & { readonly kind: "map" },
  names: readonly string[],
): boolean {
  const isNear = (key: string) => names.includes(key) || nearest(key, names) !== undefined;
  return entries.length > 0 && !entries.some(({ key }) => isNear(key));
}
