// Binary operators between two numbers, a number and a vector, and two vectors.

import type { Labels, Sample } from "../result.ts";
import { type Binary, type Matching, NAME_LABEL } from "../syntax/ast.ts";
import { change, drop, keep, keyBut, keyBy, keyOf, namesInOrder, show } from "./labels.ts";
import { distinct, failed, mapped, type Vector } from "./value.ts";

type Operate = (left: number, right: number) => number;

const ARITHMETIC: ReadonlyMap<string, Operate> = new Map<string, Operate>([
  ["+", (left, right) => left + right],
  ["-", (left, right) => left - right],
  ["*", (left, right) => left * right],
  ["/", (left, right) => left / right],
  ["%", (left, right) => left % right],
  ["^", power],
  ["atan2", Math.atan2],
]);

export const COMPARISONS: ReadonlyMap<string, (left: number, right: number) => boolean> = new Map([
  ["==", (left: number, right: number) => left === right],
  ["!=", (left: number, right: number) => left !== right],
  [">", (left: number, right: number) => left > right],
  ["<", (left: number, right: number) => left < right],
  [">=", (left: number, right: number) => left >= right],
  ["<=", (left: number, right: number) => left <= right],
]);

export const SETS: ReadonlySet<string> = new Set(["and", "or", "unless"]);

export const OPERATORS: readonly string[] = [...ARITHMETIC.keys(), ...COMPARISONS.keys(), ...SETS];

/** pow of IEEE 754, where 1 to any power is 1; in JavaScript 1 ** NaN is NaN. */
function power(base: number, exponent: number): number {
  if (base === 1 || (base === -1 && Math.abs(exponent) === Number.POSITIVE_INFINITY)) return 1;
  return base ** exponent;
}

/** Result of an operator; undefined leaves the sample out. `from` is the result of a comparison that holds. */
type Combine = (left: number, right: number, from: number) => number | undefined;

function combine({ op, bool }: Binary): Combine {
  const compare = COMPARISONS.get(op);
  if (compare === undefined) return ARITHMETIC.get(op) ?? (() => undefined);
  if (bool) return (left, right) => Number(compare(left, right));
  return (left, right, from) => (compare(left, right) ? from : undefined);
}

/** Comparisons without bool filter samples, which keep their metric name; other results have none. */
function keepsName({ op, bool }: Binary): boolean {
  return COMPARISONS.has(op) && !bool;
}

export function ofNumbers(binary: Binary): Operate {
  const run = combine(binary);
  return (left, right) => run(left, right, left) ?? Number.NaN;
}

export function ofVectorAndNumber(
  binary: Binary,
  numberIs: "left" | "right",
): (vector: Vector, number: number) => Vector {
  const run = combine(binary);
  const labels = keepsName(binary) ? (same: Labels) => same : withoutName;
  return (vector, number) =>
    mapped(vector, labels, (value) =>
      numberIs === "left" ? run(number, value, value) : run(value, number, value),
    );
}

const NAME: ReadonlySet<string> = new Set([NAME_LABEL]);

export function withoutName(labels: Labels): Labels {
  return NAME_LABEL in labels ? drop(labels, NAME) : labels;
}

/** The signature of operators that ignore no labels, shared by all of them. */
function keyWithoutName(labels: Labels): string {
  return keyBut(labels, NAME);
}

type OfVectors = (left: Vector, right: Vector) => Vector;

export function ofVectors(binary: Binary): OfVectors {
  const key = signature(binary.matching);
  switch (binary.op) {
    case "and":
    case "unless":
      return (left, right) => {
        const keys = new Set(right.map(({ labels }) => key(labels)));
        return left.filter(({ labels }) => keys.has(key(labels)) === (binary.op === "and"));
      };
    case "or":
      return (left, right) => {
        const keys = new Set(left.map(({ labels }) => key(labels)));
        return distinct([...left, ...right.filter(({ labels }) => !keys.has(key(labels)))]);
      };
    default:
      return matched(binary, key);
  }
}

function signature(matching: Matching | undefined): (labels: Labels) => string {
  if (matching?.on === true) {
    const names = namesInOrder(matching.labels);
    return (labels) => keyBy(labels, names);
  }
  if (matching === undefined || matching.labels.length === 0) return keyWithoutName;
  const dropped = new Set([...matching.labels, NAME_LABEL]);
  return (labels) => keyBut(labels, dropped);
}

/** Combines every sample of the "many" side with the one sample of the other side with the same signature. */
function matched(binary: Binary, key: (labels: Labels) => string): OfVectors {
  const run = combine(binary);
  const labels = resultLabels(binary);
  const many = binary.matching?.many;
  return (left, right) => {
    if (left.length === 0 || right.length === 0) return [];
    const [manySide, oneSide] = many === "right" ? [right, left] : [left, right];
    const ones = unique(oneSide, key, many === "right" ? "left" : "right");
    const taken = new Set<string>();
    const result: Sample[] = [];
    for (const sample of manySide) {
      const at = key(sample.labels);
      const one = ones.get(at);
      if (one === undefined) continue;
      const [lhs, rhs] = many === "right" ? [one, sample] : [sample, one];
      const value = run(lhs.value, rhs.value, lhs.value);
      if (value === undefined) continue;
      const made = labels(sample.labels, one.labels);
      const place = many === undefined ? at : keyOf(made);
      if (taken.has(place)) throw failed(ambiguousMatch(many, sample.labels));
      taken.add(place);
      result.push({ labels: made, value });
    }
    return distinct(result);
  };
}

function ambiguousMatch(many: "left" | "right" | undefined, labels: Labels): string {
  const which = `several samples match as ${show(labels)} does`;
  return many === undefined
    ? `${which}: group_left or group_right must say which side may have many`
    : `${which}: the labels of group_${many} must tell the results apart`;
}

function unique(
  side: Vector,
  key: (labels: Labels) => string,
  word: "left" | "right",
): ReadonlyMap<string, Sample> {
  const found = new Map<string, Sample>();
  for (const sample of side) {
    const at = key(sample.labels);
    const other = found.get(at);
    if (other !== undefined) {
      const both = `${show(other.labels)} and ${show(sample.labels)}`;
      throw failed(`wanted one sample on the ${word} for each match, got ${both}`);
    }
    found.set(at, sample);
  }
  return found;
}

/** Labels of a result, from those of the sample on the "many" side and of its match. */
function resultLabels(binary: Binary): (many: Labels, one: Labels) => Labels {
  const { matching } = binary;
  const named = keepsName(binary) ? (labels: Labels) => labels : withoutName;
  if (matching === undefined) return named;
  if (matching.many !== undefined) {
    return (many, one) =>
      change(
        named(many),
        Object.fromEntries(matching.include.map((name) => [name, one[name] ?? ""])),
      );
  }
  if (matching.on) {
    const names = namesInOrder(matching.labels);
    return (many) => keep(named(many), names);
  }
  const dropped = new Set(matching.labels);
  return (many) => drop(named(many), dropped);
}
