// Signatures of all functions and aggregations of a Prometheus server.

export type ValueType = "scalar" | "vector" | "matrix" | "string";

export interface Signature {
  readonly args: readonly ValueType[];
  /** Number of trailing arguments that may be left out. */
  readonly optional: number;
  /** The last argument may be repeated. */
  readonly repeats: boolean;
  readonly returns: ValueType;
}

/** Parses `scalar vector?` or `string...`; optional and repeated arguments come last. */
function signature(args: string, returns: ValueType = "vector"): Signature {
  const words = args.split(" ").filter((word) => word !== "");
  return {
    args: words.map((word) => typeOf(word.replace(/[.?]+$/, ""))),
    optional: words.filter((word) => /\?|\.{3}$/.test(word)).length,
    repeats: args.endsWith("..."),
    returns,
  };
}

function typeOf(word: string): ValueType {
  if (word === "scalar" || word === "vector" || word === "matrix") return word;
  return "string";
}

const MAPS =
  "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad sgn sin sinh sqrt tan tanh";
const RANGES =
  "rate increase delta irate idelta deriv changes resets avg_over_time sum_over_time min_over_time max_over_time count_over_time last_over_time first_over_time present_over_time absent_over_time stddev_over_time stdvar_over_time mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time";
const DATES = "days_in_month day_of_month day_of_week day_of_year hour minute month year";
const VECTORS =
  "absent sort sort_desc timestamp start_timestamp histogram_avg histogram_count histogram_stddev histogram_stdvar histogram_sum";

function all(names: string, each: Signature): Record<string, Signature> {
  return Object.fromEntries(names.split(" ").map((name) => [name, each]));
}

export const FUNCTIONS: ReadonlyMap<string, Signature> = new Map(
  Object.entries({
    ...all(MAPS, signature("vector")),
    ...all(VECTORS, signature("vector")),
    ...all(RANGES, signature("matrix")),
    ...all(DATES, signature("vector?")),
    ...all("pi time start end range step", signature("", "scalar")),
    ...all("clamp_max clamp_min", signature("vector scalar")),
    ...all("sort_by_label sort_by_label_desc", signature("vector string...")),
    clamp: signature("vector scalar scalar"),
    double_exponential_smoothing: signature("matrix scalar scalar"),
    histogram_fraction: signature("scalar scalar vector"),
    histogram_quantile: signature("scalar vector"),
    histogram_quantiles: signature("vector string scalar scalar..."),
    info: signature("vector vector?"),
    label_join: signature("vector string string string..."),
    label_replace: signature("vector string string string string"),
    predict_linear: signature("matrix scalar"),
    quantile_over_time: signature("scalar matrix"),
    round: signature("vector scalar?"),
    scalar: signature("vector", "scalar"),
    vector: signature("scalar"),
  }),
);

/** Type of the parameter before the operand; undefined for aggregations without one. */
export const AGGREGATIONS: ReadonlyMap<string, ValueType | undefined> = new Map<
  string,
  ValueType | undefined
>([
  ...["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"].map(
    (name) => [name, undefined] as const,
  ),
  ...["topk", "bottomk", "limitk", "limit_ratio", "quantile"].map(
    (name) => [name, "scalar"] as const,
  ),
  ["count_values", "string"],
]);
