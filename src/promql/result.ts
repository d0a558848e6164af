// Results of queries, and the interface of the engines that answer them: a Prometheus server or the local evaluator.
// Times are Unix ms.

/** The evaluator of a query: a Prometheus server, or Sluice's own, which supports a part of PromQL. */
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

/** Evaluates instant queries. */
export interface QueryEngine {
  /** `at` is Unix ms. Rejects with a Fault whose message can be shown in a status, or when `signal` aborts. */
  query(text: string, at: number, signal: AbortSignal): Promise<Result>;
}

/** A result as circuits use it: one number, one number for each value of a label, or neither. */
export type NumericResult =
  /** NaN is an invalid reading. */
  | { readonly kind: "value"; readonly value: number }
  | { readonly kind: "by_label"; readonly values: ReadonlyMap<string, number> }
  /** `why` explains why there is no number. `empty`: the query is fine, but the result has no samples. */
  | { readonly kind: "failed"; readonly why: string; readonly empty?: boolean };

/** The single number of a result or, if a label is given, one number for each value of that label. */
export function numericResult(result: Result, byLabel: string | undefined): NumericResult {
  return byLabel === undefined ? singleNumber(result) : numbersByLabel(result, byLabel);
}

function singleNumber(result: Result): NumericResult {
  switch (result.kind) {
    case "scalar":
      return { kind: "value", value: result.value };
    case "vector": {
      const [only, ...more] = result.samples;
      if (only !== undefined && more.length === 0) return { kind: "value", value: only.value };
      const why = `wanted one number, got a vector of ${result.samples.length}`;
      return only === undefined ? { kind: "failed", why, empty: true } : { kind: "failed", why };
    }
    case "matrix":
      return { kind: "failed", why: `wanted one number, got a range of ${result.series} series` };
    case "string":
      return { kind: "failed", why: "wanted one number, got a string" };
  }
}

/** Samples that lack the label or whose value is not finite are left out. */
function numbersByLabel(result: Result, label: string): NumericResult {
  if (result.kind !== "vector") {
    return { kind: "failed", why: `wanted a vector, got a ${result.kind}` };
  }
  const values = new Map<string, number>();
  for (const { labels, value } of result.samples) {
    const name = labels[label];
    if (name !== undefined && Number.isFinite(value)) values.set(name, value);
  }
  return { kind: "by_label", values };
}
