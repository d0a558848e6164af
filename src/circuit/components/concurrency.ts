// What concurrency limiters and schedulers share: how many requests may be in flight, sent when it changes and
// the first number always. Without a valid one everything passes.

import { type Make, read, truthy } from "../component.ts";

export function makeConcurrency<K extends "concurrency_limiter" | "concurrency_scheduler">(
  kind: K,
): Make<K> {
  return (config, wires, around) => {
    const [max, pass] = [wires.in("max_concurrency"), wires.in("pass_through")];
    const { component_id: componentId, agent_groups: agentGroups } = config;
    let [lastMax, lastPass] = [Number.NaN, false];
    return {
      run: (readings) => {
        const reading = read(readings, max);
        const invalid = Number.isNaN(reading);
        const maxConcurrency = invalid ? 0 : reading;
        const passThrough = invalid || truthy(read(readings, pass));
        // NaN, before the first one, is equal to nothing.
        if (maxConcurrency === lastMax && passThrough === lastPass) return;
        [lastMax, lastPass] = [maxConcurrency, passThrough];
        around.decide({ kind, componentId, agentGroups, maxConcurrency, passThrough });
      },
    };
  };
}
