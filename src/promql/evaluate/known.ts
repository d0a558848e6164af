// What of the language this evaluator knows: the rest is refused by name when a query is read.

import type { Expr, Span } from "../ast.ts";

const FUNCS = new Set(
  "rate increase delta irate idelta avg_over_time sum_over_time min_over_time max_over_time count_over_time last_over_time stddev_over_time stdvar_over_time quantile_over_time present_over_time absent_over_time changes resets histogram_quantile scalar vector clamp clamp_min clamp_max abs ceil floor round exp ln log2 log10 sqrt sgn time timestamp absent label_replace sort sort_desc".split(
    " ",
  ),
);
const AGGS = new Set(
  "sum avg min max count quantile topk bottomk stddev stdvar group count_values".split(" "),
);

/** Names of what is not known of this node itself; its children are asked on their own. */
export function unknownHere(node: Expr): readonly string[] {
  switch (node.kind) {
    case "call":
      return FUNCS.has(node.name) ? [] : [`function ${node.name}`];
    case "aggregate":
      return AGGS.has(node.op) ? [] : [`aggregation ${node.op}`];
    case "binary":
      return [
        ...(["</", ">/"].includes(node.op) ? [`operator ${node.op}`] : []),
        ...(node.fill === "" ? [] : ["fill"]),
      ];
    case "subquery":
      return ["a subquery"];
    case "selector":
      return [
        ...(node.at === undefined ? [] : ["the modifier @"]),
        ...(node.edges === undefined ? [] : [`the modifier ${node.edges}`]),
        ...computed(node.offset),
      ];
    case "range":
      return computed(node.range);
    default:
      return [];
  }
}

function computed(span: Span | undefined): readonly string[] {
  return span === undefined || span.ms !== undefined ? [] : [`the computed duration ${span.text}`];
}
