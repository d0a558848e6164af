// Composable schemas for the parts of a scenario. Each parses a tree to typed data and reports every fault with its
// position, what was wanted and what was got.

import { parseDuration } from "#base/duration.ts";
import { nearest } from "#base/text/spelling.ts";
import type { Report } from "#policy/document/finding.ts";
import {
  describe,
  locate,
  type Path,
  type Position,
  quote,
  type Tree,
} from "#policy/document/tree.ts";

export interface Schema<T> {
  /** Undefined when the part is invalid; the report has the findings. */
  parse(tree: Tree, path: Path, report: Report): T | undefined;
}

/** A value with its position, for faults that are found only together with the policies. */
export interface Located<T> {
  readonly value: T;
  readonly at: Position;
  readonly path: Path;
}

interface Field<T> {
  readonly shape: Schema<T>;
  readonly required: boolean;
  readonly fallback: T | undefined;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Values<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

export function required<T>(shape: Schema<T>): Field<T> {
  return { shape, required: true, fallback: undefined };
}

export function optional<T>(shape: Schema<T>): Field<T | undefined> {
  return { shape, required: false, fallback: undefined };
}

export function withDefault<T>(shape: Schema<T>, fallback: T): Field<T> {
  return { shape, required: false, fallback };
}

/** `name` describes the object in messages. */
export function object<F extends Fields>(name: string, fields: F): Schema<Values<F>> {
  return {
    parse(tree, path, report) {
      if (tree.kind !== "map") return fault(report, tree.at, path, `an object: ${name}`, tree);
      const before = report.faults;
      const meant = refuseUnknown(name, Object.keys(fields), tree, path, report);
      const values: Record<string, unknown> = {};
      for (const [key, { shape, required, fallback }] of Object.entries(fields)) {
        const entry = tree.entries.find((one) => one.key === key);
        if (entry !== undefined && entry.value.kind !== "null") {
          values[key] = shape.parse(entry.value, [...path, key], report);
        } else {
          values[key] = fallback;
          if (required && !meant.has(key)) {
            report.refuse(tree.at, [...path, key], "a value", "nothing");
          }
        }
      }
      return report.faults === before ? (values as Values<F>) : undefined;
    },
  };
}

/** Refuses unknown keys; returns the keys that were probably meant. */
function refuseUnknown(
  name: string,
  known: readonly string[],
  tree: Tree & { readonly kind: "map" },
  path: Path,
  report: Report,
): ReadonlySet<string> {
  const meant = new Set<string>();
  for (const { key, keyAt } of tree.entries) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    if (near !== undefined) meant.add(near);
    const hint = near === undefined ? `: ${known.join(", ")}` : `; did you mean ${near}?`;
    const got = `the unknown key ${quote(key)}`;
    report.refuse(keyAt, [...path, key], `a key of ${name}${hint}`, got);
  }
  return meant;
}

/** An object with exactly one of these keys, as `{ kind: key, value }`. */
export function oneKey<A extends Readonly<Record<string, Schema<unknown>>>>(
  name: string,
  arms: A,
): Schema<OneKey<A>> {
  const keys = Object.keys(arms);
  return {
    parse(tree, path, report) {
      const wanted = `${name}: an object with one key out of ${keys.join(", ")}`;
      if (tree.kind !== "map") return fault(report, tree.at, path, wanted, tree);
      const before = report.faults;
      refuseUnknown(name, keys, tree, path, report);
      if (report.faults > before) return undefined;
      const [only, ...more] = tree.entries;
      const shape = arms[only?.key ?? ""];
      if (only === undefined || shape === undefined || more.length > 0) {
        const got = tree.entries.map(({ key }) => key).join(" and ") || "none";
        report.refuse(tree.at, path, wanted, got);
        return undefined;
      }
      const value = shape.parse(only.value, [...path, only.key], report);
      return value === undefined ? undefined : ({ kind: only.key, value } as OneKey<A>);
    },
  };
}

type OneKey<A extends Readonly<Record<string, Schema<unknown>>>> = {
  readonly [K in keyof A & string]: A[K] extends Schema<infer T>
    ? { readonly kind: K; readonly value: T }
    : never;
}[keyof A & string];

export function list<T>(of: Schema<T>, filled = false): Schema<readonly T[]> {
  return {
    parse(tree, path, report) {
      if (tree.kind !== "list") return fault(report, tree.at, path, "a list", tree);
      if (filled && tree.items.length === 0) {
        report.refuse(tree.at, path, "at least one element", "an empty list");
        return undefined;
      }
      const read = tree.items.map((item, at) => of.parse(item, [...path, at], report));
      const sound = read.filter((item) => item !== undefined);
      return sound.length === read.length ? sound : undefined;
    },
  };
}

export function map<T>(of: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return {
    parse(tree, path, report) {
      if (tree.kind !== "map") return fault(report, tree.at, path, "an object", tree);
      const read: Record<string, T> = {};
      let sound = true;
      for (const { key, value } of tree.entries) {
        const one = of.parse(value, [...path, key], report);
        if (one === undefined) sound = false;
        else read[key] = one;
      }
      return sound ? read : undefined;
    },
  };
}

export function text(oneOf: readonly string[] = []): Schema<string> {
  return {
    parse(tree, path, report) {
      if (tree.kind !== "text") return fault(report, tree.at, path, "text", tree);
      const { value } = tree;
      if (value === "") return fault(report, tree.at, path, "text that is not empty", tree);
      if (oneOf.length === 0 || oneOf.includes(value)) return value;
      const near = nearest(value, oneOf);
      const hint = near === undefined ? "" : `; did you mean ${near}?`;
      return fault(report, tree.at, path, `one of ${oneOf.join(", ")}${hint}`, tree);
    },
  };
}

/** Text that is one of these words. */
export function oneOf<const W extends string>(words: readonly W[]): Schema<W> {
  return text(words) as Schema<W>;
}

/** The value of a label: text; numbers and booleans need no quotes. */
export const labelValue: Schema<string> = {
  parse(tree, path, report) {
    if (tree.kind === "text") return tree.value;
    if (tree.kind === "number") return tree.source;
    if (tree.kind === "boolean") return String(tree.value);
    return fault(report, tree.at, path, "a label's value", tree);
  },
};

interface Range {
  readonly min?: number;
  readonly above?: number;
  readonly max?: number;
  readonly whole?: boolean;
}

export function number({ min, above, max, whole }: Range = {}): Schema<number> {
  const bounds = [
    above === undefined ? "" : `above ${above}`,
    min === undefined ? "" : `of at least ${min}`,
    max === undefined ? "" : `of at most ${max}`,
  ].filter((part) => part !== "");
  const wanted = [whole ? "a whole number" : "a number", bounds.join(" and ")].join(" ").trim();
  return {
    parse(tree, path, report) {
      const value = tree.kind === "number" ? tree.value : Number.NaN;
      const inside =
        Number.isFinite(value) &&
        (min === undefined || value >= min) &&
        (above === undefined || value > above) &&
        (max === undefined || value <= max) &&
        (!whole || Number.isSafeInteger(value));
      return inside ? value : fault(report, tree.at, path, wanted, tree);
    },
  };
}

/** A number, or `invalid`, which is NaN. */
export const reading: Schema<number> = {
  parse(tree, path, report) {
    if (tree.kind === "text" && tree.value === "invalid") return Number.NaN;
    if (tree.kind === "number" && Number.isFinite(tree.value)) return tree.value;
    return fault(report, tree.at, path, "a number, or invalid", tree);
  },
};

export const flag: Schema<boolean> = {
  parse(tree, path, report) {
    return tree.kind === "boolean"
      ? tree.value
      : fault(report, tree.at, path, "true or false", tree);
  },
};

/** A duration such as `1m30s`, `250ms` or `0s`, in milliseconds. */
export function duration(rules: { readonly positive?: boolean } = {}): Schema<number> {
  const wanted = `a duration ${rules.positive ? "above 0s" : "of at least 0s"}, such as 250ms, 10s or 1m30s`;
  return {
    parse(tree, path, report) {
      const ms = tree.kind === "text" ? parseDuration(tree.value) : undefined;
      const sound = ms !== undefined && ms <= MAX_MS && (rules.positive ? ms > 0 : ms >= 0);
      return sound ? ms : fault(report, tree.at, path, wanted, tree);
    },
  };
}

/** A thousand hours; longer durations are surely mistakes. */
const MAX_MS = 3_600_000_000;

/** Any object, as the tree itself. */
export const anyObject: Schema<Tree> = {
  parse(tree, path, report) {
    return tree.kind === "map" ? tree : fault(report, tree.at, path, "an object", tree);
  },
};

export function located<T>(of: Schema<T>): Schema<Located<T>> {
  return {
    parse(tree, path, report) {
      const value = of.parse(tree, path, report);
      return value === undefined ? undefined : { value, at: tree.at, path };
    },
  };
}

/** Reports a fault of the part at a path inside a value. */
export type Refuse = (inner: Path, wanted: string, got: string) => void;

/** Adds a rule about the whole value. */
export function checked<T>(of: Schema<T>, check: (value: T, refuse: Refuse) => void): Schema<T> {
  return {
    parse(tree, path, report) {
      const value = of.parse(tree, path, report);
      if (value === undefined) return undefined;
      const before = report.faults;
      check(value, (inner, wanted, got) => {
        report.refuse(() => locate(tree, inner), [...path, ...inner], wanted, got);
      });
      return report.faults === before ? value : undefined;
    },
  };
}

/** Converts the parsed value. */
export function mapped<T, U>(of: Schema<T>, make: (value: T) => U): Schema<U> {
  return {
    parse(tree, path, report) {
      const value = of.parse(tree, path, report);
      return value === undefined ? undefined : make(value);
    },
  };
}

function fault(report: Report, at: Position, path: Path, wanted: string, got: Tree): undefined {
  report.refuse(at, path, wanted, describe(got));
}
