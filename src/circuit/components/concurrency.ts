// Decides how many requests may be in flight, for concurrency limiters and schedulers. Sends the number when it
// changes and always at the first tick. While it is invalid, `on_failure` decides; by default every flow passes.

import { standInOf } from "#base/failure-mode.ts";
import { type ComponentFactory, read, truthy } from "../component.ts";
import type { ConcurrencyNumbers, DecisionKindOf } from "../decision.ts";

export function makeConcurrency<K extends DecisionKindOf<ConcurrencyNumbers>>(
  kind: K,
): ComponentFactory<K> {
  return (config, wires, context) => {
    const [max, pass] = [wires.in("max_concurrency"), wires.in("pass_through")];
    const { component_id: componentId, agent_groups: agentGroups, on_failure } = config;
    const state = context.state(() => ({ valid: Number.NaN }));
    let sent: ConcurrencyNumbers | undefined;

    /** While the policy itself lets all flows pass, nothing has failed. */
    const numbersOnFailure = (passThrough: boolean): ConcurrencyNumbers => {
      if (passThrough) return { maxConcurrency: 0, passThrough };
      const failure = standInOf(on_failure, "open", !Number.isNaN(state.valid));
      const maxConcurrency = failure === "last_known" ? state.valid : 0;
      return { maxConcurrency, passThrough: failure === "open", failure };
    };

    return {
      run: (readings) => {
        const maxConcurrency = read(readings, max);
        const passThrough = truthy(read(readings, pass));
        const valid = !Number.isNaN(maxConcurrency);
        if (valid) state.valid = maxConcurrency;
        const numbers = valid ? { maxConcurrency, passThrough } : numbersOnFailure(passThrough);
        if (sent !== undefined && equal(numbers, sent)) return;
        sent = numbers;
        context.decide({ kind, componentId, agentGroups, ...numbers });
      },
    };
  };
}

function equal(left: ConcurrencyNumbers, right: ConcurrencyNumbers): boolean {
  return (
    left.maxConcurrency === right.maxConcurrency &&
    left.passThrough === right.passThrough &&
    left.failure === right.failure
  );
}
