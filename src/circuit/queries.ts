// The queries that the components of a plan ask while it runs.

import type { CircuitPlan, Leaf } from "./plan.ts";

export interface PlanQuery {
  readonly componentId: string;
  readonly query: string;
}

/** The query of a component, in PromQL; "" where it asks none. */
export function queryOf({ kind, config }: Leaf): string {
  if (kind === "promql") return config.query_string;
  return kind === "load_actuator" ? config.tokens_query : "";
}

/** Every query of a plan, in the order of its components. */
export function queriesOf(plan: CircuitPlan | undefined): readonly PlanQuery[] {
  return (plan?.leaves ?? []).flatMap((leaf) => {
    const query = queryOf(leaf);
    return query === "" ? [] : [{ componentId: leaf.id, query }];
  });
}
