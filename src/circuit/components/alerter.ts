// Raises an alert in every tick in which the signal is valid and not 0. An alert resolves when it is no longer
// raised.

import { type Alert, type ComponentFactory, read, truthy } from "../component.ts";

export const makeAlerter: ComponentFactory<"alerter"> = ({ parameters }, wires, context) => {
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
};
