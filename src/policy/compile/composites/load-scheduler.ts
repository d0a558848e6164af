// A load scheduler: decides the load multiplier for agents, or none in a dry run, and measures the share of
// load that agents really let through.

import { type LoadScheduler, loadScheduler as message } from "../../language/load.ts";
import { groupsOf } from "../../language/selector.ts";
import { agentConfig } from "../agents/config.ts";
import {
  composite,
  type Draft,
  dryRun,
  egress,
  ingress,
  labelText,
  measured,
  type Owner,
  switcher,
} from "../draft.ts";

export function loadScheduler(component: LoadScheduler, owner: Owner): Draft {
  const { workload_latency_based_tokens: byLatency, selectors } = component.parameters;
  return composite("load_scheduler", component, (id) => {
    const labels = labelText({
      policy_name: owner.policyName,
      policy_hash: owner.policyHash,
      component_id: id,
    });
    return [
      dryRun(component, "DRY_RUN"),
      switcher({ by: "DRY_RUN", on: Number.NaN, off: "LOAD_MULTIPLIER_INPUT" }, "LOAD_MULTIPLIER"),
      () => {
        const agent_groups = groupsOf(selectors);
        const tokens_query = byLatency ? tokensQuery(labels) : "";
        return {
          is: "leaf",
          kind: "load_actuator",
          config: { component_id: id, agent_groups, tokens_query },
          ins: { load_multiplier: "LOAD_MULTIPLIER" },
          outs: {},
          same: { byLatency, agent_groups },
          about: selectors,
          agentConfig: agentConfig("load_scheduler", id, agent_groups, message, component),
        };
      },
      measured("observed", observedQuery(labels), "OBSERVED_LOAD_MULTIPLIER"),
      ingress("load_multiplier", "LOAD_MULTIPLIER_INPUT"),
      egress("observed_load_multiplier", "OBSERVED_LOAD_MULTIPLIER"),
    ];
  });
}

function observedQuery(labels: string): string {
  const accepted = `sum(increase(accepted_tokens_total{${labels}}[30s]))`;
  const rejected = `sum(increase(rejected_tokens_total{${labels}}[30s]))`;
  return `${accepted} / (${accepted} + ${rejected})`;
}

/** Mean latency of each workload, in milliseconds. */
function tokensQuery(labels: string): string {
  const total = (metric: string) => `sum by (workload_index) (increase(${metric}{${labels}}[30m]))`;
  return `${total("workload_latency_ms_sum")} / ${total("workload_latency_ms_count")}`;
}
