// The number of slots of one concurrency limiter that are held, as an agent reports it over its JSON routes.

import assert from "node:assert/strict";
import { begin, endFlow } from "../sluice/check.ts";

/** A policy with one concurrency limiter, whose slots no time frees. */
export const slotsPolicy = (controlPoint: string, slots: number) => `
circuit:
  components:
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: ${controlPoint} }]
          in_ports: { max_concurrency: { constant_signal: { value: ${slots} } } }
          parameters: { max_inflight_duration: 3600s }
`;

/** Number of slots held. Asks by a check of its own, whose slot it returns. */
export async function slotsHeld(address: string, controlPoint: string): Promise<number> {
  const { slots, inFlight } = await begin(address, controlPoint);
  if (slots.length > 0) assert.deepEqual(await endFlow(address, controlPoint, slots), [true]);
  return inFlight;
}
