// Judges a document against the tables of the language: every fault at once, each with its place, what was
// wanted and what was got. What passes comes back as typed data with its defaults filled in.

import { parseSeconds } from "#base/duration.ts";
import { nearest } from "#base/near.ts";
import { judgeLabelRule } from "#flow/classify.ts";
import { judgeMatcher } from "#flow/match.ts";
import type { Finding, Notice } from "./finding.ts";
import { finding, type Report } from "./finding.ts";
import type { Field, Message, Range, Type } from "./language/field.ts";
import {
  describe,
  formatPath,
  locate,
  type Path,
  type Position,
  plain,
  quote,
  type Tree,
  type TreeEntry,
} from "./tree.ts";

export interface Judged<V> {
  /** Undefined when the document is at fault. */
  readonly value: V | undefined;
  readonly findings: readonly Finding[];
  readonly warnings: readonly Notice[];
}

export function judge<V>(message: Message<V>, tree: Tree, path: Path): Judged<V> {
  const judge = new Judge();
  const value = judge.message(message, tree, path) as V;
  const sound = judge.findings.length === 0;
  return { value: sound ? value : undefined, findings: judge.findings, warnings: judge.warnings };
}

const PUBLISHED = "published; agents of this version do not act on it";

/** Values that are at fault are undefined or left out; nobody looks at them once a fault was found. */
class Judge implements Report {
  readonly findings: Finding[] = [];
  readonly warnings: Notice[] = [];
  #fault(at: Position, path: Path, wanted: string, got: string): void {
    this.findings.push(finding(at, path, wanted, got));
  }

  #say(tree: Tree, path: Path, wanted: string, got: string): undefined {
    this.#fault(tree.at, path, wanted, got);
  }

  message(message: Message, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") return this.#say(tree, path, "an object", describe(tree));
    const before = this.findings.length;
    const meant = this.#unknownKeys(message, tree, path);
    const unknown = this.findings.length > before;
    const value: Record<string, unknown> = {};
    const present = new Map<string, string[]>();
    for (const [name, field] of Object.entries(message.fields)) {
      const entry = tree.entries.find(({ key }) => key === name);
      if (entry === undefined || entry.value.kind === "null") {
        value[name] = field.default;
        if (field.required && !meant.has(name)) {
          this.#say(tree, [...path, name], `a value: ${name} is required`, "nothing");
        }
        continue;
      }
      const at = [...path, name];
      if (field.group !== undefined) {
        present.set(field.group, [...(present.get(field.group) ?? []), name]);
      }
      this.#notices(field, entry, at);
      value[name] = this.#field(field, entry.value, at);
    }
    this.#groups(message, tree, path, present, unknown);
    if (this.findings.length === before) {
      message.check?.(value, (inner, wanted, got) => {
        const at = locate(tree, inner);
        this.#fault(at, [...path, ...inner], wanted, got);
      });
      message.doubt?.(value, (inner, text) => {
        const at = locate(tree, inner);
        this.warnings.push({ at, path: formatPath([...path, ...inner]), text });
      });
    }
    return value;
  }

  #notices(field: Field<unknown>, { keyAt: at, value }: TreeEntry, path: Path): void {
    const note = (text: string): void => {
      this.warnings.push({ at, path: formatPath(path), text });
    };
    if (field.deprecated !== undefined) {
      note(`deprecated${field.deprecated === "" ? "" : `; write ${field.deprecated} instead`}`);
    }
    const empty =
      (value.kind === "list" && value.items.length === 0) ||
      (value.kind === "map" && value.entries.length === 0);
    if (field.published && !empty) note(PUBLISHED);
  }

  /** Refuses keys that are not in the table; returns the fields that they were probably meant to be. */
  #unknownKeys(
    message: Message,
    tree: Tree & { readonly kind: "map" },
    path: Path,
  ): ReadonlySet<string> {
    const names = Object.keys(message.fields);
    const meant = new Set<string>();
    for (const { key, keyAt } of tree.entries) {
      if (Object.hasOwn(message.fields, key)) continue;
      const camel = names.find((name) => isSpelling(key, name));
      const near = camel ?? nearest(key, names);
      if (near !== undefined) meant.add(near);
      const wanted =
        camel !== undefined
          ? `${camel} (keys are snake_case)`
          : near !== undefined
            ? `a key of ${message.name}; did you mean ${near}?`
            : `a key of ${message.name}: ${names.join(", ")}`;
      this.#fault(keyAt, [...path, key], wanted, `the unknown key ${quote(key)}`);
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
      if (found.length > 1) this.#say(tree, path, wanted, found.join(" and "));
      // An unknown key, already refused, was probably meant to be the member.
      else if (found.length === 0 && what !== undefined && !unknown) {
        this.#say(tree, path, wanted, "none");
      }
    }
  }

  #field(field: Field<unknown>, tree: Tree, path: Path): unknown {
    const before = this.findings.length;
    const value = this.#type(field.type, tree, path);
    const empty = value === "" || value === 0;
    if (
      field.required &&
      empty &&
      field.type.kind !== "duration" &&
      this.findings.length === before
    ) {
      const wanted = value === 0 ? "a number other than 0" : "text that is not empty";
      return this.#say(tree, path, wanted, describe(tree));
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
          : this.#say(tree, path, "true or false", describe(tree));
      case "duration":
        return this.#duration(type, tree, path);
      case "enum":
        return this.#enum(type, tree, path);
      case "object":
        return tree.kind === "map"
          ? plain(tree)
          : this.#say(tree, path, "an object", describe(tree));
    }
  }

  #list(type: Type & { readonly kind: "list" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "list") return this.#say(tree, path, "a list", describe(tree));
    if (type.filled && tree.items.length === 0) {
      return this.#say(tree, path, "at least one element", "an empty list");
    }
    return tree.items.map((item, index) => this.#field(type.of, item, [...path, index]));
  }

  #map(type: Type & { readonly kind: "map" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") return this.#say(tree, path, "an object", describe(tree));
    if (type.filled && tree.entries.length === 0) {
      return this.#say(tree, path, "at least one entry", "an empty object");
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
      return this.#say(tree, path, `text${hint}`, describe(tree));
    }
    const { value } = tree;
    if (type.oneOf !== undefined && !type.oneOf.includes(value)) {
      const hint = didYouMean(value, type.oneOf);
      return this.#say(tree, path, `one of ${type.oneOf.join(", ")}${hint}`, quote(value));
    }
    if (type.filled && value === "") {
      return this.#say(tree, path, "text that is not empty", quote(value));
    }
    if (type.noSlash && value.includes("/")) {
      return this.#say(tree, path, "a name without `/`", quote(value));
    }
    const wrong = type.regex ? patternFaults(value) : type.labelName ? labelFaults(value) : "";
    if (wrong !== "") {
      const wanted = type.regex ? "a regular expression (RE2)" : "a label name";
      return this.#say(tree, path, wanted, wrong);
    }
    return value;
  }

  #number(type: Type & { readonly kind: "number" }, tree: Tree, path: Path): unknown {
    const value = doubleOf(tree);
    if (value === undefined) {
      const wanted = 'a number, or "NaN", "Infinity", "-Infinity" as text';
      return this.#say(tree, path, wanted, describe(tree));
    }
    return this.#within(type, value, tree, path);
  }

  #integer(type: Type & { readonly kind: "integer" }, tree: Tree, path: Path): unknown {
    const value = integerOf(tree);
    const [least, most] = LIMITS[type.size];
    if (value === undefined || value < least || value > most) {
      const wanted = `a whole number from ${least} to ${most} (${type.size})`;
      return this.#say(tree, path, wanted, describe(tree));
    }
    return this.#within(type, type.size === "int64" ? value : Number(value), tree, path);
  }

  #within(range: Range, value: number | bigint, tree: Tree, path: Path): unknown {
    const { min, max, above } = range;
    const inside =
      (min === undefined || value >= min) &&
      (max === undefined || value <= max) &&
      (above === undefined || value > above);
    return inside ? value : this.#say(tree, path, `a number ${formatRange(range)}`, describe(tree));
  }

  #duration(type: Type & { readonly kind: "duration" }, tree: Tree, path: Path): unknown {
    const ms = tree.kind === "text" ? parseSeconds(tree.value) : undefined;
    if (ms === undefined || Math.abs(ms) > LONGEST_MS) {
      const wanted = "a duration in seconds with the suffix s, such as 10s or 0.5s";
      return this.#say(tree, path, wanted, describe(tree));
    }
    if (ms < 0 || (type.positive && ms === 0)) {
      const wanted = type.positive ? "a duration above 0s" : "a duration of at least 0s";
      return this.#say(tree, path, wanted, describe(tree));
    }
    return ms;
  }

  #enum(type: Type & { readonly kind: "enum" }, tree: Tree, path: Path): unknown {
    const numbers = [...type.numbers.values()];
    if (tree.kind === "number" && numbers.includes(tree.value)) return tree.value;
    const value = tree.kind === "text" ? type.numbers.get(tree.value) : undefined;
    if (value !== undefined) return value;
    const hint = tree.kind === "text" ? didYouMean(tree.value, [...type.numbers.keys()]) : "";
    return this.#say(tree, path, `a ${type.name} by name or number${hint}`, describe(tree));
  }
}

const LONGEST_MS = 315_576_000_000_000;

const LIMITS: Readonly<Record<"int32" | "uint32" | "int64", readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
};

const DECIMAL = /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const WORDS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};

function doubleOf(tree: Tree): number | undefined {
  if (tree.kind === "number") return Number.isFinite(tree.value) ? tree.value : undefined;
  if (tree.kind !== "text") return undefined;
  if (Object.hasOwn(WORDS, tree.value)) return WORDS[tree.value];
  if (!DECIMAL.test(tree.value)) return undefined;
  const value = Number(tree.value);
  return Number.isFinite(value) ? value : undefined;
}

const WHOLE = /^[-+]?\d{1,25}$/;

function integerOf(tree: Tree): bigint | undefined {
  const source =
    tree.kind === "number" ? tree.source : tree.kind === "text" ? tree.value : undefined;
  if (source === undefined) return undefined;
  if (WHOLE.test(source)) return BigInt(source.replace("+", ""));
  const value = doubleOf(tree);
  return value !== undefined && Number.isSafeInteger(value) ? BigInt(value) : undefined;
}

export function formatRange({ min, max, above }: Range): string {
  const parts = [
    above === undefined ? "" : `above ${above}`,
    min === undefined ? "" : `of at least ${min}`,
    max === undefined ? "" : `of at most ${max}`,
  ];
  return parts.filter((part) => part !== "").join(" and ");
}

/** Asked of the code that will run it, so that whatever is accepted here also compiles there. */
function patternFaults(regex: string): string {
  const expression = { kind: "label_matches", label: "", regex } as const;
  return judgeMatcher({ labels: {}, list: [], expression }).join("; ");
}

function labelFaults(label: string): string {
  const extractor = { kind: "from", from: "request.http.host" } as const;
  return judgeLabelRule({ label, telemetry: true, extractor }).join("; ");
}

/** The choice that was probably meant, if any. */
function didYouMean(text: string, choices: readonly string[]): string {
  const near = choices.find((choice) => isSpelling(text, choice)) ?? nearest(text, choices);
  return near === undefined ? "" : `; did you mean ${near}?`;
}

/** Whether a key spells a name in another way of writing words together (`constantOutput`). */
function isSpelling(key: string, name: string): boolean {
  const bare = (text: string): string => text.replaceAll(/[_-]/g, "").toLowerCase();
  return bare(key) === bare(name);
}
