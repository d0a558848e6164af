// Decides how many requests may be in flight, for concurrency limiters and schedulers. Sends the number when it
// changes and always at the first tick. Fails open: while the number is invalid, every flow passes.

import { type ComponentFactory, read, truthy } from "../component.ts";
import type { ConcurrencyNumbers, DecisionKindOf } from "../decision.ts";

export function makeConcurrency<K extends DecisionKindOf<ConcurrencyNumbers>>(
  kind: K,
): ComponentFactory<K> {
  return (config, wires, context) => {
    const [max, pass] = [wires.in("max_concurrency"), wires.in("pass_through")];
    const { component_id: componentId, agent_groups: agentGroups } = config;
    let [lastMax, lastPass] = [Number.NaN, false];
    return {
      run: (readings) => {
        const reading = read(readings, max);
        const invalid = Number.isNaN(reading);
        const maxConcurrency = invalid ? 0 : reading;
        const passThrough = invalid || truthy(read(readings, pass));
        // Before the first decision the last number is NaN, which equals nothing.
        if (maxConcurrency === lastMax && passThrough === lastPass) return;
        [lastMax, lastPass] = [maxConcurrency, passThrough];
        context.decide({ kind, componentId, agentGroups, maxConcurrency, passThrough });
      },
    };
  };
}
