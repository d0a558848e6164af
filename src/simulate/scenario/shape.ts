// What a part of a scenario looks like, as small readers that compose: each turns a tree into typed data and
// names every fault with its place, what was wanted and what was got.

import { parseDuration } from "#base/duration.ts";
import { nearest } from "#base/near.ts";
import type { Report } from "#policy/finding.ts";
import { describe, locate, type Path, type Position, quote, type Tree } from "#policy/tree.ts";

export interface Shape<T> {
  /** Undefined says that the part is at fault, and that the report knows why. */
  read(tree: Tree, path: Path, report: Report): T | undefined;
}

/** A value and where it stands, for faults that show only beside the policy. */
export interface Placed<T> {
  readonly value: T;
  readonly at: Position;
  readonly path: Path;
}

interface Field<T> {
  readonly shape: Shape<T>;
  readonly required: boolean;
  readonly otherwise: T | undefined;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Values<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

export function need<T>(shape: Shape<T>): Field<T> {
  return { shape, required: true, otherwise: undefined };
}

export function maybe<T>(shape: Shape<T>): Field<T | undefined> {
  return { shape, required: false, otherwise: undefined };
}

export function or<T>(shape: Shape<T>, otherwise: T): Field<T> {
  return { shape, required: false, otherwise };
}

/** `name` is what people call such an object. */
export function object<F extends Fields>(name: string, fields: F): Shape<Values<F>> {
  return {
    read(tree, path, report) {
      if (tree.kind !== "map") return fault(report, tree.at, path, `an object: ${name}`, tree);
      const before = report.faults;
      const meant = refuseUnknown(name, Object.keys(fields), tree, path, report);
      const values: Record<string, unknown> = {};
      for (const [key, { shape, required, otherwise }] of Object.entries(fields)) {
        const entry = tree.entries.find((one) => one.key === key);
        if (entry !== undefined && entry.value.kind !== "null") {
          values[key] = shape.read(entry.value, [...path, key], report);
        } else {
          values[key] = otherwise;
          if (required && !meant.has(key)) {
            report.refuse(tree.at, [...path, key], "a value", "nothing");
          }
        }
      }
      return report.faults === before ? (values as Values<F>) : undefined;
    },
  };
}

/** Says which keys are not known; gives those that they were probably meant to be. */
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

/** An object with exactly one of these keys: which one, and what it holds. */
export function oneKey<A extends Readonly<Record<string, Shape<unknown>>>>(
  name: string,
  arms: A,
): Shape<OneKey<A>> {
  const keys = Object.keys(arms);
  return {
    read(tree, path, report) {
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
      const value = shape.read(only.value, [...path, only.key], report);
      return value === undefined ? undefined : ({ kind: only.key, value } as OneKey<A>);
    },
  };
}

type OneKey<A extends Readonly<Record<string, Shape<unknown>>>> = {
  readonly [K in keyof A & string]: A[K] extends Shape<infer T>
    ? { readonly kind: K; readonly value: T }
    : never;
}[keyof A & string];

export function list<T>(of: Shape<T>, filled = false): Shape<readonly T[]> {
  return {
    read(tree, path, report) {
      if (tree.kind !== "list") return fault(report, tree.at, path, "a list", tree);
      if (filled && tree.items.length === 0) {
        report.refuse(tree.at, path, "at least one element", "an empty list");
        return undefined;
      }
      const read = tree.items.map((item, at) => of.read(item, [...path, at], report));
      const sound = read.filter((item) => item !== undefined);
      return sound.length === read.length ? sound : undefined;
    },
  };
}

export function map<T>(of: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return {
    read(tree, path, report) {
      if (tree.kind !== "map") return fault(report, tree.at, path, "an object", tree);
      const read: Record<string, T> = {};
      let sound = true;
      for (const { key, value } of tree.entries) {
        const one = of.read(value, [...path, key], report);
        if (one === undefined) sound = false;
        else read[key] = one;
      }
      return sound ? read : undefined;
    },
  };
}

export function text(oneOf: readonly string[] = []): Shape<string> {
  return {
    read(tree, path, report) {
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

/** One of these words. */
export function word<const W extends string>(words: readonly W[]): Shape<W> {
  return text(words) as Shape<W>;
}

/** Label values are text, but numbers and truth values may stand without quotes. */
export const labelValue: Shape<string> = {
  read(tree, path, report) {
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

export function number({ min, above, max, whole }: Range = {}): Shape<number> {
  const bounds = [
    above === undefined ? "" : `above ${above}`,
    min === undefined ? "" : `of at least ${min}`,
    max === undefined ? "" : `of at most ${max}`,
  ].filter((part) => part !== "");
  const wanted = [whole ? "a whole number" : "a number", bounds.join(" and ")].join(" ").trim();
  return {
    read(tree, path, report) {
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
export const reading: Shape<number> = {
  read(tree, path, report) {
    if (tree.kind === "text" && tree.value === "invalid") return Number.NaN;
    if (tree.kind === "number" && Number.isFinite(tree.value)) return tree.value;
    return fault(report, tree.at, path, "a number, or invalid", tree);
  },
};

export const flag: Shape<boolean> = {
  read(tree, path, report) {
    return tree.kind === "boolean"
      ? tree.value
      : fault(report, tree.at, path, "true or false", tree);
  },
};

/** Milliseconds. `1m30s`, `250ms`, `0s`. */
export function duration(rules: { readonly positive?: boolean } = {}): Shape<number> {
  const wanted = `a duration ${rules.positive ? "above 0s" : "of at least 0s"}, such as 250ms, 10s or 1m30s`;
  return {
    read(tree, path, report) {
      const ms = tree.kind === "text" ? parseDuration(tree.value) : undefined;
      const sound = ms !== undefined && ms <= LONGEST_MS && (rules.positive ? ms > 0 : ms >= 0);
      return sound ? ms : fault(report, tree.at, path, wanted, tree);
    },
  };
}

/** A thousand hours: whoever wants more has written something else than was meant. */
const LONGEST_MS = 3_600_000_000;

/** The tree itself. */
export const anyObject: Shape<Tree> = {
  read(tree, path, report) {
    return tree.kind === "map" ? tree : fault(report, tree.at, path, "an object", tree);
  },
};

export function placed<T>(of: Shape<T>): Shape<Placed<T>> {
  return {
    read(tree, path, report) {
      const value = of.read(tree, path, report);
      return value === undefined ? undefined : { value, at: tree.at, path };
    },
  };
}

/** A rule among the parts of a value; `say` names the part by its path inside. */
export function checked<T>(
  of: Shape<T>,
  check: (value: T, say: (inner: Path, wanted: string, got: string) => void) => void,
): Shape<T> {
  return {
    read(tree, path, report) {
      const value = of.read(tree, path, report);
      if (value === undefined) return undefined;
      const before = report.faults;
      check(value, (inner, wanted, got) => {
        report.refuse(() => locate(tree, inner), [...path, ...inner], wanted, got);
      });
      return report.faults === before ? value : undefined;
    },
  };
}

/** The same value in another form. */
export function mapped<T, U>(of: Shape<T>, make: (value: T) => U): Shape<U> {
  return {
    read(tree, path, report) {
      const value = of.read(tree, path, report);
      return value === undefined ? undefined : make(value);
    },
  };
}

function fault(report: Report, at: Position, path: Path, wanted: string, got: Tree): undefined {
  report.refuse(at, path, wanted, describe(got));
}
