// Functions of single values (abs, clamp …) and of whole vectors (sort).

import { ascending, sortedByValue } from "../numbers.ts";
import type { Vector } from "../value.ts";

/** A function of one value. Parameters that were left out are undefined. */
type OfValue = (value: number, ...parameters: readonly (number | undefined)[]) => number;

export const MAPS: ReadonlyMap<string, OfValue> = new Map<string, OfValue>([
  ["abs", Math.abs],
  ["ceil", Math.ceil],
  ["floor", Math.floor],
  ["round", round],
  ["exp", Math.exp],
  ["ln", Math.log],
  ["log2", Math.log2],
  ["log10", Math.log10],
  ["sqrt", Math.sqrt],
  ["sgn", (value) => (value > 0 ? 1 : value < 0 ? -1 : value)],
  ["clamp", (value, low, high) => larger(low ?? 0, smaller(high ?? 0, value))],
  ["clamp_min", (value, low) => larger(low ?? 0, value)],
  ["clamp_max", (value, high) => smaller(high ?? 0, value)],
]);

/** Like Go's math.Max: infinity is larger than NaN, whereas Math.max returns NaN. */
function larger(one: number, two: number): number {
  const most = Number.POSITIVE_INFINITY;
  return one === most || two === most ? most : Math.max(one, two);
}

function smaller(one: number, two: number): number {
  return -larger(-one, -two);
}

/** Rounds to the nearest multiple, halves up. */
function round(value: number, multiple = 1): number {
  const inverse = 1 / multiple;
  return Math.floor(value * inverse + 0.5) / inverse;
}

export const ORDERS: ReadonlyMap<string, (vector: Vector) => Vector> = new Map([
  ["sort", (vector: Vector) => sortedByValue(vector, ascending)],
  ["sort_desc", (vector: Vector) => sortedByValue(vector, (one, two) => ascending(two, one))],
]);
