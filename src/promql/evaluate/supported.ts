// The part of the language that the local evaluator supports. The rest is refused by name when a policy is validated.

import type { DurationLiteral, Expr } from "../syntax/ast.ts";
import { AGGREGATES } from "./aggregate.ts";
import { OPERATORS } from "./binary.ts";
import { CALLS } from "./compile.ts";
import { RANGES } from "./functions/range.ts";
import { MAPS, ORDERS } from "./functions/vector.ts";

export const SUPPORTED = {
  functions: [...MAPS.keys(), ...ORDERS.keys(), ...RANGES.keys(), ...CALLS.keys()],
  aggregations: AGGREGATES,
  operators: OPERATORS,
} as const;

/** Names of the unsupported features of this node itself, without its children. */
export function unsupportedIn(node: Expr): readonly string[] {
  switch (node.kind) {
    case "call":
      return SUPPORTED.functions.includes(node.name) ? [] : [`function ${node.name}`];
    case "aggregate":
      return SUPPORTED.aggregations.includes(node.op) ? [] : [`aggregation ${node.op}`];
    case "binary":
      return [
        ...(SUPPORTED.operators.includes(node.op) ? [] : [`operator ${node.op}`]),
        ...(node.fill === "" ? [] : ["modifier fill"]),
      ];
    case "subquery":
      return ["a subquery"];
    case "selector":
      return [
        ...(node.at === undefined ? [] : ["modifier @"]),
        ...(node.edges === undefined ? [] : [`modifier ${node.edges}`]),
        ...computed(node.offset),
        ...((node.offset?.ms ?? 0) < 0 ? ["negative offset"] : []),
      ];
    case "range":
      return computed(node.range);
    case "number":
    case "string":
    case "unary":
    case "paren":
      return [];
  }
}

function computed(span: DurationLiteral | undefined): readonly string[] {
  return span === undefined || span.ms !== undefined ? [] : [`computed duration ${span.text}`];
}
