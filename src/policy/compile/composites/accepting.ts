// Rate limiters, concurrency limiters and their schedulers: the leaf that agents carry out, and the share of
// flows that they accepted lately.

import { type Actuated, type Actuating, agentGroupsOf } from "../configs.ts";
import {
  composite,
  type Draft,
  egress,
  ingress,
  labelText,
  measured,
  type Owner,
} from "../draft.ts";

type Kind = "rate_limiter" | "quota_scheduler" | "concurrency_limiter" | "concurrency_scheduler";
type Accepting = {
  readonly [K in Kind]: { readonly kind: K; readonly component: Actuated[K] };
}[Kind];

/** The in-ports of the leaf, with the signals that they read. */
const BUCKET = {
  bucket_capacity: "BUCKET_CAPACITY",
  fill_amount: "FILL_AMOUNT",
  pass_through: "PASS_THROUGH",
} as const;
const CONCURRENCY = { max_concurrency: "MAX_CONCURRENCY", pass_through: "PASS_THROUGH" } as const;

/** Whose counter tells how many were accepted. */
const METRICS: Readonly<Record<Kind, string>> = {
  rate_limiter: "rate_limiter_counter_total",
  quota_scheduler: "workload_requests_total",
  concurrency_limiter: "concurrency_limiter_counter_total",
  concurrency_scheduler: "workload_requests_total",
};

export function accepting(what: Accepting, owner: Owner): Draft {
  const { kind, component } = what;
  const { selectors, out_ports } = component;
  const ports = "bucket_capacity" in component.in_ports ? BUCKET : CONCURRENCY;
  const inner = (port: string) => innerPort(kind, port);
  const in_ports = Object.fromEntries(
    Object.entries(component.in_ports).map(([port, from]) => [inner(port), from]),
  );
  return composite(kind, { in_ports, out_ports }, (id) => [
    measured("accepted", acceptQuery(METRICS[kind], owner, id), "ACCEPT_PERCENTAGE"),
    () => {
      const actuates: Actuating = { ...what, componentId: id };
      const agent_groups = agentGroupsOf(actuates);
      const config = { component_id: id, agent_groups };
      const about = { selectors, key: labelKeyOf(what) };
      return {
        is: "leaf",
        kind,
        config,
        ins: ports,
        outs: {},
        same: agent_groups,
        about,
        actuates,
      };
    },
    ...Object.entries(ports).map(([port, signal]) => ingress(inner(port), signal)),
    egress("accept_percentage", "ACCEPT_PERCENTAGE"),
  ]);
}

/** The label whose values are limited by themselves: it says what the numbers are numbers of. */
function labelKeyOf({ kind, component }: Accepting): string {
  switch (kind) {
    case "rate_limiter":
    case "concurrency_limiter":
      return component.parameters.limit_by_label_key;
    case "quota_scheduler":
      return component.rate_limiter.limit_by_label_key;
    case "concurrency_scheduler":
      return component.concurrency_limiter.limit_by_label_key;
  }
}

/** One port has another name on the inside. */
function innerPort(kind: Kind, port: string): string {
  return kind === "concurrency_scheduler" && port === "max_concurrency" ? "max_capacity" : port;
}

/** Without the hash: counts go on when the policy changes. */
function acceptQuery(metric: string, { policyName }: Owner, componentId: string): string {
  const labels = labelText({ policy_name: policyName, component_id: componentId });
  const accepted = `sum(rate(${metric}{${labels},decision_type="DECISION_TYPE_ACCEPTED"}[30s]))`;
  return `(${accepted} / sum(rate(${metric}{${labels}}[30s]))) * 100`;
}
