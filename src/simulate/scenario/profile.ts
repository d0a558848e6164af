// A number over time, as a scenario writes one: steady, in steps, in straight lines between points, as a
// wave, or a sum of those. NaN is an invalid reading.

import {
  checked,
  duration,
  list,
  mapped,
  need,
  number,
  object,
  oneKey,
  or,
  reading,
  type Shape,
} from "./shape.ts";

export interface Profile {
  /** Milliseconds since the start. */
  at(ms: number): number;
  /** No value is above it. */
  readonly most: number;
}

interface Point {
  readonly at: number;
  readonly value: number;
}

const ascending = (of: Shape<number>): Shape<readonly Point[]> =>
  checked(list(object("a point", { at: need(duration()), value: need(of) }), true), (all, say) => {
    for (const [at, point] of all.entries()) {
      const before = all[at - 1];
      if (before !== undefined && point.at <= before.at) {
        say([at, "at"], `a time after ${before.at} ms: points stand in order`, `${point.at} ms`);
      }
    }
  });

function arms(of: Shape<number>) {
  const wave = object("a sine", {
    mean: need(number()),
    amplitude: need(number({ min: 0 })),
    period: need(duration({ positive: true })),
    shift: or(duration(), 0),
  });
  return {
    steps: mapped(ascending(of), steps),
    line: mapped(ascending(number()), line),
    sine: mapped(wave, sine),
    sum: mapped(list({ read: (...given) => profile(of).read(...given) }, true), sum),
  };
}

/** `of` reads single values. */
export function profile(of: Shape<number> = reading): Shape<Profile> {
  const plain = mapped(of, steady);
  return {
    read(tree, path, report) {
      // `invalid` is the one word that stands for a number.
      if (tree.kind === "number" || tree.kind === "text") return plain.read(tree, path, report);
      return oneKey("a number over time", arms(of)).read(tree, path, report)?.value;
    },
  };
}

export function steady(value: number): Profile {
  return { at: () => value, most: value };
}

/** Holds each value from its point on; before the first it is that of the first. */
function steps(points: readonly Point[]): Profile {
  return { at: (ms) => points[placeOf(points, ms)]?.value ?? Number.NaN, most: greatest(points) };
}

/** Straight between points, level outside them. */
function line(points: readonly Point[]): Profile {
  return {
    most: greatest(points),
    at(ms) {
      const place = placeOf(points, ms);
      const [from, to] = [points[place], points[place + 1]];
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
    most: mean + amplitude,
  };
}

function sum(parts: readonly Profile[]): Profile {
  return {
    at: (ms) => parts.reduce((total, part) => total + part.at(ms), 0),
    most: parts.reduce((total, part) => total + part.most, 0),
  };
}

/** The last point that is not after `ms`, or the first of all. */
export function placeOf(points: readonly { readonly at: number }[], ms: number): number {
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
