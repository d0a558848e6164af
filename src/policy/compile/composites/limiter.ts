// The common part of rate limiters, concurrency limiters and the schedulers built on them: a leaf whose
// decisions agents act on, and the percentage of flows that agents accepted recently. Each kind has a file
// beside this one.

import type { FailureMode } from "#base/failure-mode.ts";
import type { Configs, Kind } from "#circuit/plan.ts";
import type { Message } from "../../language/field.ts";
import type { AdaptiveLimit } from "../../language/flow.ts";
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

/** Kinds of leaves that are configured by nothing but whose decisions they make. */
type PlainActuator = {
  [K in Kind]: Configs["pod_scale_actuator"] extends Configs[K] ? K : never;
}[Kind];

interface LimiterComponent {
  readonly in_ports: Readonly<Record<string, InPort | undefined>> | undefined;
  readonly out_ports: Readonly<Record<string, OutPort | undefined>> | undefined;
  readonly selectors: readonly Selector[];
}

export interface Limiter<C extends LimiterComponent> {
  /** The kind of the leaf; decisions and the configuration of agents have the same. */
  readonly kind: PlainActuator & Parameters<typeof agentConfig>[0];
  readonly component: C;
  /** The language's table of the component. */
  readonly message: Message<C>;
  /** Those of the component, where they are not as the document has them. */
  readonly inPorts?: LimiterComponent["in_ports"];
  /** In-ports of the leaf, each with the signal that it reads inside the composite. */
  readonly ports: Readonly<Record<string, string>>;
  /** In-ports that have another name on the inside of the composite: outer to inner name. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** The counter of agents that tells accepted flows from rejected ones by its label `decision_type`. */
  readonly counter: string;
  /** The decision of its circuit while a signal is invalid. */
  readonly onFailure: FailureMode | undefined;
  /** The label each of whose values has a limit of its own: part of what the decisions are about. */
  readonly limitByLabelKey: string;
}

export const BUCKET_PORTS = {
  bucket_capacity: "BUCKET_CAPACITY",
  fill_amount: "FILL_AMOUNT",
  pass_through: "PASS_THROUGH",
} as const;

/** The in-ports of a component that counts slots, with its largest limit where the document connects none. */
export function slotPorts(
  ports: Readonly<Record<string, InPort | undefined>> | undefined,
  adaptive: AdaptiveLimit | undefined,
): LimiterComponent["in_ports"] {
  if (adaptive === undefined || sourceOf(ports?.["max_concurrency"]) !== undefined) {
    return ports ?? {};
  }
  const max = { special_value: undefined, value: adaptive.max };
  return { ...ports, max_concurrency: { signal_name: undefined, constant_signal: max } };
}

export const CONCURRENCY_PORTS = {
  max_concurrency: "MAX_CONCURRENCY",
  pass_through: "PASS_THROUGH",
} as const;

export function limiter<C extends LimiterComponent>(of: Limiter<C>, owner: Owner): Draft {
  const { kind, component, message, ports, renamed = {}, limitByLabelKey: key } = of;
  const { selectors, out_ports } = component;
  const innerName = (port: string) => renamed[port] ?? port;
  const in_ports = Object.fromEntries(
    Object.entries(of.inPorts ?? component.in_ports ?? {}).map(([port, from]) => [
      innerName(port),
      from,
    ]),
  );
  return composite(kind, { in_ports, out_ports }, (id) => [
    measured("accepted", acceptQuery(of.counter, owner, id), "ACCEPT_PERCENTAGE"),
    () => {
      const agent_groups = groupsOf(selectors);
      // All of these kinds have the same configuration.
      return {
        is: "leaf",
        kind,
        config: { component_id: id, agent_groups, ...onFailureOf(of.onFailure) },
        ins: ports,
        outs: {},
        same: agent_groups,
        about: { selectors, key },
        agentConfig: agentConfig(kind, id, agent_groups, message, component),
      } as LeafDraft;
    },
    ...Object.entries(ports).map(([port, signal]) => ingress(innerName(port), signal)),
    egress("accept_percentage", "ACCEPT_PERCENTAGE"),
  ]);
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
