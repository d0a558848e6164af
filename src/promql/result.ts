// What a query gives, whoever answered it: a Prometheus server or the evaluator of this room. Times are
// Unix ms.

/** Who will answer: `own` knows a part of the language only. */
export type Dialect = "prometheus" | "own";

/** The metric's name is the label `__name__`. */
export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export type Result =
  | { readonly kind: "scalar"; readonly value: number }
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "vector"; readonly samples: readonly Sample[] }
  | { readonly kind: "matrix"; readonly series: number };

/** Answers instant queries. */
export interface Measure {
  /** `at` is Unix ms. Rejects with a Fault whose message is fit for a status; ends early with the signal. */
  query(text: string, at: number, signal: AbortSignal): Promise<Result>;
}

/** One number, or why the result is none. NaN is a number here: an invalid reading. */
export function numberOf(
  result: Result,
): number | { readonly why: string; readonly empty?: boolean } {
  switch (result.kind) {
    case "scalar":
      return result.value;
    case "vector": {
      const [only, ...more] = result.samples;
      if (only !== undefined && more.length === 0) return only.value;
      const why = `wanted one number, got a vector of ${result.samples.length}`;
      return only === undefined ? { why, empty: true } : { why };
    }
    case "matrix":
      return { why: `wanted one number, got a range of ${result.series} series` };
    case "string":
      return { why: "wanted one number, got a string" };
  }
}

/** One number for each value of a label, or why the result is none. Samples without the label are left out. */
export function numbersBy(
  label: string,
  result: Result,
): ReadonlyMap<string, number> | { readonly why: string } {
  if (result.kind !== "vector") return { why: `wanted a vector, got a ${result.kind}` };
  const values = new Map<string, number>();
  for (const { labels, value } of result.samples) {
    const name = labels[label];
    if (name !== undefined && Number.isFinite(value)) values.set(name, value);
  }
  return values;
}
