// What rate limiters and quota schedulers share: the numbers of a token bucket, sent when they change and the
// first ones always. Without a valid capacity or fill amount everything passes.

import { type Make, read, truthy } from "../component.ts";

export function makeBucket<K extends "rate_limiter" | "quota_scheduler">(kind: K): Make<K> {
  return (config, wires, around) => {
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
        // NaN, before the first ones, is equal to nothing.
        const same = bucketCapacity === lastCapacity && fillAmount === lastFill;
        if (same && passThrough === lastPass) return;
        [lastCapacity, lastFill, lastPass] = [bucketCapacity, fillAmount, passThrough];
        around.decide({ kind, componentId, agentGroups, bucketCapacity, fillAmount, passThrough });
      },
    };
  };
}
