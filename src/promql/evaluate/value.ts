// Values and compiled forms of expressions.

import { Fault } from "#base/fault.ts";
import type { Labels, Sample } from "../result.ts";
import type { SampleStore } from "../samples.ts";
import { keyOf, show } from "./labels.ts";
import type { CompiledSelector } from "./selector.ts";

export type Vector = readonly Sample[];

export interface EvaluationMoment {
  /** Unix ms. */
  readonly at: number;
  readonly samples: SampleStore;
  /** The selectors of the query, by `Selector.index`. */
  readonly selectors: readonly CompiledSelector[];
}

/** Compiled expressions, by type. */
export type NumberEvaluator = (moment: EvaluationMoment) => number;
export type VectorEvaluator = (moment: EvaluationMoment) => Vector;

export type Compiled =
  | { readonly type: "scalar"; readonly run: NumberEvaluator }
  | { readonly type: "vector"; readonly run: VectorEvaluator }
  | { readonly type: "string"; readonly value: string };

export function failed(why: string): Fault {
  return new Fault("FAILED_PRECONDITION", why);
}

/** Returns the vector, or throws when two samples have equal labels, as can happen when a label is dropped. */
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

/** Maps labels and values; a value of undefined leaves a sample out. */
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
