// What an expression gives at one moment, and what its parts are asked with.

import { Fault } from "#base/fault.ts";
import type { Labels, Sample } from "../result.ts";
import type { SampleStore } from "../samples.ts";
import { keyOf, show } from "./labels.ts";

export type Vector = readonly Sample[];

export interface Moment {
  /** Unix ms. */
  readonly at: number;
  readonly samples: SampleStore;
}

/** Expressions are compiled to one of these, by their type. */
export type Numbered = (moment: Moment) => number;
export type Vectored = (moment: Moment) => Vector;

export type Compiled =
  | { readonly type: "scalar"; readonly run: Numbered }
  | { readonly type: "vector"; readonly run: Vectored }
  | { readonly type: "string"; readonly value: string };

export function failed(why: string): Fault {
  return new Fault("FAILED_PRECONDITION", why);
}

/** The vector itself, if no two samples have the same labels: names that are dropped can make them so. */
export function distinct(vector: Vector): Vector {
  if (vector.length < 2) return vector;
  const seen = new Set<string>();
  for (const { labels } of vector) {
    const key = keyOf(labels);
    if (seen.has(key))
      throw failed(`two samples of the result have the same labels ${show(labels)}`);
    seen.add(key);
  }
  return vector;
}

/** `undefined` leaves a sample out. */
export function mapped(
  vector: Vector,
  labels: (labels: Labels) => Labels,
  value: (value: number) => number | undefined,
): Vector {
  const result: Sample[] = [];
  for (const sample of vector) {
    const changed = value(sample.value);
    if (changed !== undefined) result.push({ labels: labels(sample.labels), value: changed });
  }
  return distinct(result);
}
