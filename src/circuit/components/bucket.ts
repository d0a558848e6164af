// Decides the numbers of a token bucket, for rate limiters and quota schedulers. Sends them when they change and
// always at the first tick. Fails open: while capacity or fill amount is invalid, every flow passes.

import { type ComponentFactory, read, truthy } from "../component.ts";
import type { BucketNumbers, DecisionKindOf } from "../decision.ts";

export function makeBucket<K extends DecisionKindOf<BucketNumbers>>(kind: K): ComponentFactory<K> {
  return (config, wires, context) => {
    const [capacity, fill] = [wires.in("bucket_capacity"), wires.in("fill_amount")];
    const pass = wires.in("pass_through");
    const { component_id: componentId, agent_groups: agentGroups } = config;
    let [lastCapacity, lastFill, lastPass] = [Number.NaN, Number.NaN, false];
    return {
      run: (readings) => {
        let [bucketCapacity, fillAmount] = [read(readings, capacity), read(readings, fill)];
        let passThrough = truthy(read(readings, pass));
        if (Number.isNaN(bucketCapacity) || Number.isNaN(fillAmount)) {
          [bucketCapacity, fillAmount, passThrough] = [0, 0, true];
        }
        // Before the first decision the last numbers are NaN, which equals nothing.
        const same = bucketCapacity === lastCapacity && fillAmount === lastFill;
        if (same && passThrough === lastPass) return;
        [lastCapacity, lastFill, lastPass] = [bucketCapacity, fillAmount, passThrough];
        context.decide({ kind, componentId, agentGroups, bucketCapacity, fillAmount, passThrough });
      },
    };
  };
}
