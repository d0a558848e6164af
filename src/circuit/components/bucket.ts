// Decides the numbers of a token bucket, for rate limiters and quota schedulers. Sends them when they change and
// always at the first tick. While capacity or fill amount is invalid, `on_failure` decides; by default every flow passes.

import { standInOf } from "#base/failure-mode.ts";
import { type ComponentFactory, read, truthy } from "../component.ts";
import type { BucketNumbers, DecisionKindOf } from "../decision.ts";

const OPEN: BucketNumbers = { bucketCapacity: 0, fillAmount: 0, passThrough: true };
const CLOSED: BucketNumbers = { bucketCapacity: 0, fillAmount: 0, passThrough: false };

export function makeBucket<K extends DecisionKindOf<BucketNumbers>>(kind: K): ComponentFactory<K> {
  return (config, wires, context) => {
    const [capacity, fill] = [wires.in("bucket_capacity"), wires.in("fill_amount")];
    const pass = wires.in("pass_through");
    const { component_id: componentId, agent_groups: agentGroups, on_failure } = config;
    // The last valid numbers.
    const state = context.state(() => ({ capacity: Number.NaN, fill: Number.NaN }));
    let sent: BucketNumbers | undefined;

    /** While the policy itself lets all flows pass, nothing has failed. */
    const numbersOnFailure = (passThrough: boolean): BucketNumbers => {
      if (passThrough) return OPEN;
      const { capacity: bucketCapacity, fill: fillAmount } = state;
      const failure = standInOf(on_failure, "open", !Number.isNaN(bucketCapacity));
      if (failure === "last_known")
        return { bucketCapacity, fillAmount, passThrough: false, failure };
      return { ...(failure === "closed" ? CLOSED : OPEN), failure };
    };

    return {
      run: (readings) => {
        const [bucketCapacity, fillAmount] = [read(readings, capacity), read(readings, fill)];
        const passThrough = truthy(read(readings, pass));
        const valid = !Number.isNaN(bucketCapacity) && !Number.isNaN(fillAmount);
        const numbers = valid
          ? { bucketCapacity, fillAmount, passThrough }
          : numbersOnFailure(passThrough);
        if (valid) {
          state.capacity = bucketCapacity;
          state.fill = fillAmount;
        }
        if (sent !== undefined && equal(numbers, sent)) return;
        sent = numbers;
        context.decide({ kind, componentId, agentGroups, ...numbers });
      },
    };
  };
}

function equal(left: BucketNumbers, right: BucketNumbers): boolean {
  return (
    left.bucketCapacity === right.bucketCapacity &&
    left.fillAmount === right.fillAmount &&
    left.passThrough === right.passThrough &&
    left.failure === right.failure
  );
}
