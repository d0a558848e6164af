// Warnings: remarks about a policy that is accepted. One model serves `policy check`, the status and the metrics
// of a running policy, and the log; its codes are stable, so that people can filter and count by them.

import type { Position } from "./tree.ts";

/** Every kind of warning, with what it means. */
export const WARNINGS = {
  not_run: "Agents of this version do not act on this part of the document.",
  deprecated: "The key still works, but a newer one replaces it.",
  unusual_value: "The value is allowed, but probably does not mean what it seems to mean.",
  flapping: "A decision that nothing holds changes what it measures, so it may flip for ever.",
  dynamic_config: "Dynamic configuration that no component reads or that its component cannot use.",
  unknown_label:
    "Nothing that Sluice knows makes this label: no request attribute or header, and no classifier in force.",
  client_label:
    "Clients alone choose the label, in their baggage or a header, and with it what a request costs, how important it is, or whether a selector chooses it.",
  costly_regex:
    "Long values are not tested against the regular expression, because that would take too long. `on_failure` decides about flows that have them.",
  unknown_metric: "Nothing measures the metric that a query reads, so the query has no values.",
  unknown_flux_meter: "A query reads a flux meter that no policy defines.",
  literal_path: "A segment of a path template looks like a parameter or a wildcard and is neither.",
  needs_prometheus:
    "Only a Prometheus server can answer the query; Sluice refuses it where none is configured.",
  needs_auto_scale:
    "Replicas change only where `auto_scale.kubernetes.enabled` of the controllers is true.",
  not_scaled: "The controller cannot scale the Kubernetes object that the policy names.",
  other_autoscaler:
    "A HorizontalPodAutoscaler or another component scales the object that the policy scales.",
  needs_attachment:
    "`targetRefs` attach a policy only where it is a Kubernetes resource and `gateway_api.enabled` of the controllers is true.",
  not_attached:
    "The gateway or route that `targetRefs` names does not ask agents as the policy wants it.",
  ignored_file: "A file looks like a policy by its name and is not read.",
  unknown_agent_group: "A selector's agent group, named or default, has no agents.",
  unused_control_point: "No check has named the control point for ten minutes.",
  invalid_signal: "A signal has had no valid value since the policy was loaded.",
  fails_open: "A limiter accepts every flow because a signal that it needs is invalid.",
  failed_component: "A component of the circuit failed in the last tick.",
} as const satisfies Readonly<Record<string, string>>;

export type WarningCode = keyof typeof WARNINGS;

/** A warning: part of a policy probably does not do what its author meant. A running policy has no position in a text. */
export interface PolicyWarning {
  readonly code: WarningCode;
  /** Path of the part as text, such as `circuit.components[2]`; "" is the whole document. */
  readonly path: string;
  /** A plain sentence without a full stop. It stays the same as long as the warning lasts. */
  readonly text: string;
  /** The cause, as far as it is known; may change while the warning lasts. */
  readonly why?: string;
}

/** A warning about a text. */
export interface Warning extends PolicyWarning {
  /** The text, as messages name it. */
  readonly source: string;
  readonly at: Position;
}

/** Adds a warning about the part at a path below the one that is looked at. */
export type Warn = (code: WarningCode, path: readonly (string | number)[], text: string) => void;
