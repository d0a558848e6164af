// Aggregations: one result per group of samples (sum, avg …), or a selection of its samples (topk, bottomk).

import type { Labels, Sample } from "../result.ts";
import { type Aggregate, NAME_LABEL } from "../syntax/ast.ts";
import { printNumber } from "../syntax/literals.ts";
import { change, drop, keep, keyBut, keyBy, NO_LABELS, namesInOrder } from "./labels.ts";
import {
  ascending,
  greatest,
  least,
  mean,
  quantile,
  sortedByValue,
  sum,
  variance,
} from "./numbers.ts";
import { failed, type Vector } from "./value.ts";

/** Samples of one group, at least one. */
interface Group {
  readonly labels: Labels;
  readonly members: Sample[];
}

type Reduce = (values: readonly number[], parameter: number) => number;

const REDUCE: ReadonlyMap<string, Reduce> = new Map<string, Reduce>([
  ["sum", sum],
  ["avg", mean],
  ["min", least],
  ["max", greatest],
  ["count", (values) => values.length],
  ["group", () => 1],
  ["stddev", (values) => Math.sqrt(variance(values))],
  ["stdvar", variance],
  ["quantile", (values, part) => quantile(part, values)],
]);

type Choose = (group: Group, parameter: number) => Vector;

const CHOOSE: ReadonlyMap<string, Choose> = new Map<string, Choose>([
  ["topk", (group, many) => chosen(group, many, (one, two) => ascending(two, one))],
  ["bottomk", (group, many) => chosen(group, many, ascending)],
]);

export const AGGREGATES: readonly string[] = [...REDUCE.keys(), ...CHOOSE.keys(), "count_values"];

/** The first `many` samples in the order of `better`; NaN comes last. */
function chosen(
  { members }: Group,
  many: number,
  better: (one: number, two: number) => number,
): Vector {
  if (!(Math.abs(many) < 2 ** 63)) throw failed(`wanted a number of samples, got ${many}`);
  return sortedByValue(members, better).slice(0, Math.max(0, Math.trunc(many)));
}

/** Compiles every aggregation except count_values, whose parameter is a string. */
export function compileAggregate(
  aggregate: Aggregate,
): (vector: Vector, parameter: number) => Vector {
  const group = grouping(aggregate);
  const reduce = REDUCE.get(aggregate.op);
  if (reduce !== undefined) {
    return (vector, parameter) =>
      group(vector).map(({ labels, members }) => ({
        labels,
        value: reduce(
          members.map(({ value }) => value),
          parameter,
        ),
      }));
  }
  const choose = CHOOSE.get(aggregate.op);
  if (choose === undefined) throw failed(`aggregation ${aggregate.op} is not known`);
  return (vector, parameter) => group(vector).flatMap((each) => choose(each, parameter));
}

/** Compiles count_values: values become a label, which grouping treats like any other. */
export function compileCountValues(
  aggregate: Aggregate,
  label: string,
): (vector: Vector) => Vector {
  if (label === "") throw failed('count_values: wanted a name of a label, got ""');
  const { without, grouping: names } = aggregate;
  const group = grouping(without ? aggregate : { without, grouping: [...names, label] });
  const labelled = ({ labels, value }: Sample): Sample => ({
    labels: change(labels, { [label]: printNumber(value) }),
    value,
  });
  return (vector) =>
    group(vector.map(labelled)).map(({ labels, members }) => ({ labels, value: members.length }));
}

/** The grouping of aggregations without `by` and `without`, shared by all of them. */
function oneGroup(vector: Vector): readonly Group[] {
  return vector.length === 0 ? [] : [{ labels: NO_LABELS, members: [...vector] }];
}

function grouping({
  without,
  grouping,
}: Pick<Aggregate, "without" | "grouping">): (vector: Vector) => readonly Group[] {
  if (!without && grouping.length === 0) return oneGroup;
  const names = namesInOrder(grouping);
  const dropped = new Set([...names, NAME_LABEL]);
  const key = without
    ? (labels: Labels) => keyBut(labels, dropped)
    : (labels: Labels) => keyBy(labels, names);
  const kept = without
    ? (labels: Labels) => drop(labels, dropped)
    : (labels: Labels) => keep(labels, names);
  return (vector) => {
    const groups = new Map<string, Group>();
    for (const sample of vector) {
      const at = key(sample.labels);
      const group = groups.get(at);
      if (group === undefined) groups.set(at, { labels: kept(sample.labels), members: [sample] });
      else group.members.push(sample);
    }
    return [...groups.values()];
  };
}
