// Compiles a syntax tree to closures, so that groupings and functions are resolved only once. Selectors are compiled apart
// and given to each evaluation: queries that differ only in the values of their matchers have equal closures.

import type { Labels, Sample } from "../result.ts";
import type { Aggregate, Binary, Call, Expr, Selector } from "../syntax/ast.ts";
import { compileAggregate, compileCountValues } from "./aggregate.ts";
import { ofNumbers, ofVectorAndNumber, ofVectors, withoutName } from "./binary.ts";
import { histogramQuantile } from "./functions/histogram.ts";
import { labelReplace } from "./functions/label-replace.ts";
import { RANGES } from "./functions/range.ts";
import { MAPS, ORDERS } from "./functions/vector.ts";
import { NO_LABELS } from "./labels.ts";
import type { Points } from "./series.ts";
import {
  type Compiled,
  distinct,
  type EvaluationMoment,
  failed,
  mapped,
  type NumberEvaluator,
  type Vector,
  type VectorEvaluator,
} from "./value.ts";

/** Lookback delta: a series without a sample for this long has no value. A server's default. */
const LOOK_BACK_MS = 300_000;

/** `expr` must have passed `validateQuery`, except for its constant arguments. */
export function compile(expr: Expr): Compiled {
  switch (expr.kind) {
    case "number":
      return { type: "scalar", run: () => expr.value };
    case "string":
      return { type: "string", value: expr.value };
    case "paren":
      return compile(expr.of);
    case "unary":
      return unary(expr.sign, compile(expr.of));
    case "selector":
      return { type: "vector", run: instant(expr, (_, value) => value) };
    case "call":
      return call(expr);
    case "aggregate":
      return { type: "vector", run: aggregate(expr) };
    case "binary":
      return binary(expr);
    case "range":
    case "subquery":
      throw failed(`a ${expr.kind} has no value of its own`);
  }
}

function unary(sign: "+" | "-", of: Compiled): Compiled {
  if (sign === "+" || of.type === "string") return of;
  if (of.type === "scalar") return { type: "scalar", run: (moment) => -of.run(moment) };
  const run: VectorEvaluator = (moment) => mapped(of.run(moment), withoutName, (value) => -value);
  return { type: "vector", run };
}

/** The newest sample of each series within the lookback delta. */
function instant(
  selector: Selector,
  measure: (time: number, value: number) => number,
): VectorEvaluator {
  const { index } = selector;
  const offset = selector.offset?.ms ?? 0;
  return ({ at, samples, selectors }) => {
    const result: Sample[] = [];
    for (const series of samples.select(selectors[index])) {
      const found = series.newest(at - offset - LOOK_BACK_MS, at - offset);
      if (found !== undefined) {
        result.push({ labels: series.labels, value: measure(found.time, found.value) });
      }
    }
    return result;
  };
}

type MakeCall = (args: readonly Expr[]) => Compiled;

function vectorOf(make: (args: readonly Expr[]) => VectorEvaluator): MakeCall {
  return (args) => ({ type: "vector", run: make(args) });
}

/** Functions that need more than the values of one vector or range. */
export const CALLS: ReadonlyMap<string, MakeCall> = new Map<string, MakeCall>([
  ["time", () => ({ type: "scalar", run: ({ at }) => at / 1000 })],
  [
    "scalar",
    ([first]) => {
      const of = vectorOperand(first);
      return { type: "scalar", run: (moment) => onlyValue(of(moment)) };
    },
  ],
  [
    "vector",
    vectorOf(([first]) => {
      const of = numberOperand(first);
      return (moment) => [{ labels: NO_LABELS, value: of(moment) }];
    }),
  ],
  ["timestamp", vectorOf(([first]) => timestamps(first))],
  ["absent", vectorOf(([first]) => absent(vectorOperand(first), first))],
  [
    "absent_over_time",
    vectorOf(([first]) =>
      absent(
        overRange(first, true, () => 1),
        first,
      ),
    ),
  ],
  [
    "histogram_quantile",
    vectorOf(([first, second]) => {
      const [part, of] = [numberOperand(first), vectorOperand(second)];
      return (moment) => histogramQuantile(part(moment), of(moment));
    }),
  ],
  [
    "label_replace",
    vectorOf(([first, ...texts]) => {
      const [target = "", template = "", source = "", expression = ""] = texts.map(stringOperand);
      const [of, relabel] = [
        vectorOperand(first),
        labelReplace(target, template, source, expression),
      ];
      return (moment) => relabel(of(moment));
    }),
  ],
]);

function call(expr: Call): Compiled {
  return CALLS.get(expr.name)?.(expr.args) ?? { type: "vector", run: tableFunction(expr) };
}

/** Compiles functions of the tables `RANGES`, `ORDERS` and `MAPS`. */
function tableFunction({ name, args }: Call): VectorEvaluator {
  const ofRange = RANGES.get(name);
  if (ofRange !== undefined) {
    const parameter = args.length > 1 ? numberOperand(args[0]) : () => 0;
    // last_over_time is the only range function that keeps the metric name.
    return overRange(args.at(-1), name === "last_over_time", (points, window, moment) =>
      ofRange(points, window, parameter(moment)),
    );
  }
  const of = vectorOperand(args[0]);
  const order = ORDERS.get(name);
  if (order !== undefined) return (moment) => order(of(moment));
  const map = MAPS.get(name);
  if (map === undefined) throw failed(`function ${name} is not known`);
  const parameters = args.slice(1).map(numberOperand);
  return (moment) => {
    const values = parameters.map((run) => run(moment));
    const [low = 0, high = 0] = values;
    const vector = of(moment);
    if (name === "clamp" && high < low) return [];
    return mapped(vector, withoutName, (value) => map(value, ...values));
  };
}

function overRange(
  expr: Expr | undefined,
  named: boolean,
  run: (
    points: Points,
    window: { readonly from: number; readonly to: number },
    moment: EvaluationMoment,
  ) => number | undefined,
): VectorEvaluator {
  const bare = withoutParentheses(expr);
  if (bare?.kind !== "range") throw failed("wanted a range such as [5m]");
  const { index } = bare.of;
  const [range, offset] = [bare.range.ms ?? 0, bare.of.offset?.ms ?? 0];
  const labels = named ? (same: Labels) => same : withoutName;
  return (moment) => {
    const to = moment.at - offset;
    const window = { from: to - range, to };
    const result: Sample[] = [];
    const selected = moment.selectors[index];
    for (const series of moment.samples.select(selected)) {
      const points = series.between(window.from, window.to);
      const value = points.values.length > 0 ? run(points, window, moment) : undefined;
      if (value !== undefined) result.push({ labels: labels(series.labels), value });
    }
    // Series with the same metric name stay distinct without it.
    return named || selected?.name !== undefined ? result : distinct(result);
  };
}

function onlyValue(vector: Vector): number {
  const [only, ...more] = vector;
  return only === undefined || more.length > 0 ? Number.NaN : only.value;
}

/** Timestamps in seconds: of the samples for a selector, of the evaluation for other expressions. */
function timestamps(arg: Expr | undefined): VectorEvaluator {
  const bare = withoutParentheses(arg);
  if (bare?.kind === "selector") {
    const run = instant(bare, (time) => time / 1000);
    return (moment) => mapped(run(moment), withoutName, (value) => value);
  }
  const of = vectorOperand(arg);
  return (moment) => mapped(of(moment), withoutName, () => moment.at / 1000);
}

/** 1 with the labels known from the selector, when the operand is empty. */
function absent(of: VectorEvaluator, arg: Expr | undefined): VectorEvaluator {
  const bare = withoutParentheses(arg);
  const selector = bare?.kind === "range" ? bare.of : bare;
  const index = selector?.kind === "selector" ? selector.index : -1;
  return (moment) => {
    if (of(moment).length > 0) return [];
    return [{ labels: moment.selectors[index]?.equalLabels() ?? NO_LABELS, value: 1 }];
  };
}

function aggregate(expr: Aggregate): VectorEvaluator {
  const [parameter, operand] = expr.args.length > 1 ? expr.args : [undefined, expr.args[0]];
  const of = vectorOperand(operand);
  if (expr.op === "count_values") {
    const run = compileCountValues(expr, stringOperand(parameter));
    return (moment) => run(of(moment));
  }
  const run = compileAggregate(expr);
  const value = parameter === undefined ? () => 0 : numberOperand(parameter);
  return (moment) => run(of(moment), value(moment));
}

function binary(expr: Binary): Compiled {
  const [left, right] = [compile(expr.left), compile(expr.right)];
  if (left.type === "scalar" && right.type === "scalar") {
    const run = ofNumbers(expr);
    return { type: "scalar", run: (moment) => run(left.run(moment), right.run(moment)) };
  }
  if (left.type === "vector" && right.type === "vector") {
    const run = ofVectors(expr);
    return { type: "vector", run: (moment) => run(left.run(moment), right.run(moment)) };
  }
  if (left.type === "scalar" && right.type === "vector") {
    const run = ofVectorAndNumber(expr, "left");
    return { type: "vector", run: (moment) => run(right.run(moment), left.run(moment)) };
  }
  if (left.type === "vector" && right.type === "scalar") {
    const run = ofVectorAndNumber(expr, "right");
    return { type: "vector", run: (moment) => run(left.run(moment), right.run(moment)) };
  }
  throw failed(`${expr.op}: wanted numbers or instant vectors`);
}

function withoutParentheses(expr: Expr | undefined): Expr | undefined {
  return expr?.kind === "paren" ? withoutParentheses(expr.of) : expr;
}

function vectorOperand(expr: Expr | undefined): VectorEvaluator {
  const of = expr === undefined ? undefined : compile(expr);
  if (of?.type !== "vector") throw failed("wanted an instant vector");
  return of.run;
}

function numberOperand(expr: Expr | undefined): NumberEvaluator {
  const of = expr === undefined ? undefined : compile(expr);
  if (of?.type !== "scalar") throw failed("wanted a number");
  return of.run;
}

function stringOperand(expr: Expr | undefined): string {
  const bare = withoutParentheses(expr);
  if (bare?.kind !== "string") throw failed("wanted a string");
  return bare.value;
}
