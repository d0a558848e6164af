// One alert in every tick while the signal is valid and not 0: it resolves by itself when they stop coming.

import { type Alert, type Make, read, truthy } from "../component.ts";

export const makeAlerter: Make<"alerter"> = ({ parameters }, wires, around) => {
  const signal = wires.in("signal");
  const alert: Alert = {
    componentId: around.id,
    name: parameters.alert_name,
    severity: parameters.severity,
    resolveMs: parameters.resolve_timeout,
    channels: parameters.alert_channels,
    labels: parameters.labels,
  };
  return {
    run: (readings) => {
      if (truthy(read(readings, signal))) around.alert(alert);
    },
  };
};
