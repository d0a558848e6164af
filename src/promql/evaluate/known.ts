// What of the language this evaluator knows: the rest is refused by name when a query is read.

import type { Expr, Span } from "../ast.ts";
import { AGGREGATES } from "./aggregate.ts";
import { OPERATORS } from "./binary.ts";
import { CALLS } from "./compile.ts";
import { MAPS, ORDERS } from "./functions.ts";
import { RANGES } from "./ranges.ts";

export const KNOWN = {
  functions: [...MAPS.keys(), ...ORDERS.keys(), ...RANGES.keys(), ...CALLS.keys()],
  aggregations: AGGREGATES,
  operators: OPERATORS,
} as const;

/** Names of what is not known of this node itself; its children are asked on their own. */
export function unknownHere(node: Expr): readonly string[] {
  switch (node.kind) {
    case "call":
      return KNOWN.functions.includes(node.name) ? [] : [`function ${node.name}`];
    case "aggregate":
      return KNOWN.aggregations.includes(node.op) ? [] : [`aggregation ${node.op}`];
    case "binary":
      return [
        ...(KNOWN.operators.includes(node.op) ? [] : [`operator ${node.op}`]),
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

function computed(span: Span | undefined): readonly string[] {
  return span === undefined || span.ms !== undefined ? [] : [`computed duration ${span.text}`];
}
