// Rate limiters, concurrency limiters and the schedulers built on them: a leaf whose decisions agents act on, and the
// percentage of flows that agents accepted recently.

import type { FailureMode } from "#base/failure-mode.ts";
import type { Configs, Kind } from "#circuit/plan.ts";
import type { Message } from "../../language/field.ts";
import {
  type AdaptiveLimit,
  type ConcurrencyLimiter,
  concurrencyLimiter,
  type RateLimiter,
  rateLimiter,
} from "../../language/flow.ts";
import {
  type ConcurrencyScheduler,
  concurrencyScheduler,
  type QuotaScheduler,
  quotaScheduler,
} from "../../language/load.ts";
import type { InPort, OutPort } from "../../language/ports.ts";
import { groupsOf, type Selector } from "../../language/selector.ts";
import { agentConfig } from "../agents/config.ts";
import {
  composite,
  type Draft,
  egress,
  ingress,
  type LeafDraft,
  labelText,
  measured,
  type Owner,
  sourceOf,
} from "../draft.ts";

const BUCKET_PORTS = {
  bucket_capacity: "BUCKET_CAPACITY",
  fill_amount: "FILL_AMOUNT",
  pass_through: "PASS_THROUGH",
} as const;

const CONCURRENCY_PORTS = {
  max_concurrency: "MAX_CONCURRENCY",
  pass_through: "PASS_THROUGH",
} as const;

export const LIMITERS = {
  /** Token buckets whose capacity and fill amount the circuit decides. */
  rate_limiter: (component: RateLimiter, owner: Owner): Draft =>
    limiter(component, owner, {
      kind: "rate_limiter",
      message: rateLimiter,
      parameters: component.parameters,
      ports: BUCKET_PORTS,
      counter: "rate_limiter_counter_total",
    }),
  /** The same buckets with a queue in front. */
  quota_scheduler: (component: QuotaScheduler, owner: Owner): Draft =>
    limiter(component, owner, {
      kind: "quota_scheduler",
      message: quotaScheduler,
      parameters: component.rate_limiter,
      ports: BUCKET_PORTS,
      counter: "workload_requests_total",
    }),
  /** The circuit decides how many flows may be in flight. */
  concurrency_limiter: (component: ConcurrencyLimiter, owner: Owner): Draft =>
    limiter(component, owner, {
      kind: "concurrency_limiter",
      message: concurrencyLimiter,
      parameters: component.parameters,
      ports: CONCURRENCY_PORTS,
      counter: "concurrency_limiter_counter_total",
    }),
  /** The same bound on flows in flight with a queue in front. */
  concurrency_scheduler: (component: ConcurrencyScheduler, owner: Owner): Draft =>
    limiter(component, owner, {
      kind: "concurrency_scheduler",
      message: concurrencyScheduler,
      parameters: component.concurrency_limiter,
      ports: CONCURRENCY_PORTS,
      renamed: { max_concurrency: "max_capacity" },
      counter: "workload_requests_total",
    }),
} as const;

/** Kinds of leaves whose whole configuration is that of every component that makes decisions. */
type PlainActuator = {
  [K in Kind]: Configs["pod_scale_actuator"] extends Configs[K] ? K : never;
}[Kind];

type InPorts = Readonly<Record<string, InPort | undefined>>;

interface LimiterComponent {
  readonly in_ports: InPorts | undefined;
  readonly out_ports: Readonly<Record<string, OutPort | undefined>> | undefined;
  readonly selectors: readonly Selector[];
}

interface LimiterOptions<C extends LimiterComponent> {
  /** The kind of the leaf; decisions and the configuration of agents have the same. */
  readonly kind: PlainActuator & Parameters<typeof agentConfig>[0];
  /** The language's table of the component. */
  readonly message: Message<C>;
  readonly parameters: {
    /** The label each of whose values has a limit of its own: part of what the decisions are about. */
    readonly limit_by_label_key: string;
    /** The decision of its circuit while a signal is invalid. */
    readonly on_failure: FailureMode | undefined;
    readonly adaptive?: AdaptiveLimit | undefined;
  };
  /** In-ports of the leaf, each with the signal that it reads inside the composite. */
  readonly ports: Readonly<Record<string, string>>;
  /** In-ports that have another name inside the composite: outer to inner name. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** The counter of agents that tells accepted flows from rejected ones by its label `decision_type`. */
  readonly counter: string;
}

function limiter<C extends LimiterComponent>(
  component: C,
  owner: Owner,
  { kind, message, parameters, ports, renamed = {}, counter }: LimiterOptions<C>,
): Draft {
  const { selectors, in_ports, out_ports } = component;
  const innerName = (port: string) => renamed[port] ?? port;
  const connected = Object.entries(withLargestLimit(in_ports ?? {}, parameters.adaptive));
  const inner = Object.fromEntries(connected.map(([port, from]) => [innerName(port), from]));
  return composite(kind, { in_ports: inner, out_ports }, (id) => [
    measured("accepted", acceptQuery(counter, owner, id), "ACCEPT_PERCENTAGE"),
    () => {
      const agent_groups = groupsOf(selectors);
      // All of these kinds have the same configuration.
      return {
        is: "leaf",
        kind,
        config: { component_id: id, agent_groups, ...onFailureOf(parameters.on_failure) },
        ins: ports,
        outs: {},
        same: agent_groups,
        about: { selectors, key: parameters.limit_by_label_key },
        agentConfig: agentConfig(kind, id, agent_groups, message, component),
      } as LeafDraft;
    },
    ...Object.entries(ports).map(([port, signal]) => ingress(innerName(port), signal)),
    egress("accept_percentage", "ACCEPT_PERCENTAGE"),
  ]);
}

/** The in-ports of a component. The largest limit of an adaptive one stands in for an unconnected limit. */
function withLargestLimit(ports: InPorts, adaptive: AdaptiveLimit | undefined): InPorts {
  if (adaptive === undefined || sourceOf(ports["max_concurrency"]) !== undefined) return ports;
  const max = { special_value: undefined, value: adaptive.max };
  return { ...ports, max_concurrency: { signal_name: undefined, constant_signal: max } };
}

/** The member of a leaf's configuration, which is left out where the policy names no failure mode. */
export function onFailureOf(on_failure: FailureMode | undefined) {
  return on_failure === undefined ? {} : { on_failure };
}

/** Without the policy's hash, so that counts go on when the policy changes. */
function acceptQuery(counter: string, { policyName }: Owner, componentId: string): string {
  const labels = labelText({ policy_name: policyName, component_id: componentId });
  const accepted = `sum(rate(${counter}{${labels},decision_type="DECISION_TYPE_ACCEPTED"}[30s]))`;
  return `(${accepted} / sum(rate(${counter}{${labels}}[30s]))) * 100`;
}
