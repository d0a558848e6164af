// Numbers over time in a scenario: constant, in steps, linearly interpolated, a sine wave, or a sum of these. NaN
// is an invalid reading.

import {
  checked,
  duration,
  list,
  mapped,
  number,
  object,
  oneKey,
  reading,
  required,
  type Schema,
  withDefault,
} from "./schema.ts";

export interface Profile {
  /** Milliseconds since the start. */
  at(ms: number): number;
  /** Upper bound of all values. */
  readonly max: number;
}

interface Point {
  readonly at: number;
  readonly value: number;
}

const ascending = (of: Schema<number>): Schema<readonly Point[]> =>
  checked(
    list(object("a point", { at: required(duration()), value: required(of) }), true),
    (all, say) => {
      for (const [at, point] of all.entries()) {
        const before = all[at - 1];
        if (before !== undefined && point.at <= before.at) {
          say(
            [at, "at"],
            `a time after ${before.at} ms: points must be in order`,
            `${point.at} ms`,
          );
        }
      }
    },
  );

function arms(of: Schema<number>) {
  const wave = object("a sine", {
    mean: required(number()),
    amplitude: required(number({ min: 0 })),
    period: required(duration({ positive: true })),
    shift: withDefault(duration(), 0),
  });
  return {
    steps: mapped(ascending(of), steps),
    line: mapped(ascending(number()), line),
    sine: mapped(wave, sine),
    sum: mapped(list({ parse: (...given) => profile(of).parse(...given) }, true), sum),
  };
}

/** `of` is the schema of single values. */
export function profile(of: Schema<number> = reading): Schema<Profile> {
  const plain = mapped(of, steady);
  return {
    parse(tree, path, report) {
      // The word `invalid` stands for a number.
      if (tree.kind === "number" || tree.kind === "text") return plain.parse(tree, path, report);
      return oneKey("a number over time", arms(of)).parse(tree, path, report)?.value;
    },
  };
}

export function steady(value: number): Profile {
  return { at: () => value, max: value };
}

/** Holds each value from its point on, and the first value also before it. */
function steps(points: readonly Point[]): Profile {
  return { at: (ms) => points[indexAt(points, ms)]?.value ?? Number.NaN, max: greatest(points) };
}

/** Interpolates linearly between points and is constant outside them. */
function line(points: readonly Point[]): Profile {
  return {
    max: greatest(points),
    at(ms) {
      const index = indexAt(points, ms);
      const [from, to] = [points[index], points[index + 1]];
      if (from === undefined) return Number.NaN;
      if (to === undefined || ms <= from.at) return from.value;
      return from.value + ((to.value - from.value) * (ms - from.at)) / (to.at - from.at);
    },
  };
}

interface Wave {
  readonly mean: number;
  readonly amplitude: number;
  readonly period: number;
  readonly shift: number;
}

function sine({ mean, amplitude, period, shift }: Wave): Profile {
  return {
    at: (ms) => mean + amplitude * Math.sin((2 * Math.PI * (ms - shift)) / period),
    max: mean + amplitude,
  };
}

function sum(parts: readonly Profile[]): Profile {
  return {
    at: (ms) => parts.reduce((total, part) => total + part.at(ms), 0),
    max: parts.reduce((total, part) => total + part.max, 0),
  };
}

/** Index of the last point at or before `ms`, or 0 when there is none. */
export function indexAt(points: readonly { readonly at: number }[], ms: number): number {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((points[middle]?.at ?? 0) <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
}

export function greatest(points: readonly { readonly value: number }[]): number {
  const valid = points.filter(({ value }) => !Number.isNaN(value));
  return valid.reduce((most, { value }) => Math.max(most, value), Number.NEGATIVE_INFINITY);
}
