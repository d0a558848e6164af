// Components that scale pods or raise alerts.

import { type Alert, type ComponentFactories, read, truthy } from "../component.ts";

/** Replicas are sent as a 32-bit integer; larger numbers would overflow. */
const MAX_REPLICAS = 2 ** 31 - 1;

export const SCALING = {
  /**
   * Decides the number of replicas, when it changes and at the first tick: the input truncated to a whole number of
   * at least 0. An invalid input withdraws the decision, and the scale stays as it is.
   */
  pod_scale_actuator: (config, wires, context) => {
    const input = wires.in("replicas");
    let sent: number | undefined;
    let first = true;
    return {
      run: (readings) => {
        const reading = read(readings, input);
        const desiredReplicas = Number.isNaN(reading)
          ? undefined
          : Math.trunc(Math.min(Math.max(0, reading), MAX_REPLICAS));
        if (!first && desiredReplicas === sent) return;
        first = false;
        sent = desiredReplicas;
        context.decide({
          kind: "pod_scaler",
          componentId: config.component_id,
          agentGroups: config.agent_groups,
          desiredReplicas,
        });
      },
    };
  },
  /** The replicas in the last report of an agent; invalid while there is no report. */
  pod_scale_reporter: (_config, wires, context) => {
    const [actual, configured] = [wires.out("actual_replicas"), wires.out("configured_replicas")];
    const state = context.state(() => ({ actual: Number.NaN, configured: Number.NaN }));
    return {
      run: (readings) => {
        readings[actual] = state.actual;
        readings[configured] = state.configured;
      },
      report: (replicas) => {
        state.actual = replicas?.actual ?? Number.NaN;
        state.configured = replicas?.configured ?? Number.NaN;
      },
    };
  },
  /**
   * Raises an alert in every tick in which the signal is valid and not 0. An alert resolves when it is no longer
   * raised.
   */
  alerter: ({ parameters }, wires, context) => {
    const signal = wires.in("signal");
    const alert: Alert = {
      componentId: context.id,
      name: parameters.alert_name,
      severity: parameters.severity,
      resolveMs: parameters.resolve_timeout,
      channels: parameters.alert_channels,
      labels: parameters.labels,
    };
    return {
      run: (readings) => {
        if (truthy(read(readings, signal))) context.alert(alert);
      },
    };
  },
} as const satisfies Partial<ComponentFactories>;
