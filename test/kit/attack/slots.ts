// How many slots of one concurrency limiter are held, as an agent reports it over its JSON routes.

import assert from "node:assert/strict";
import { call } from "../sluice/check.ts";

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
  const check = { control_point: controlPoint, expect_end: true, request: { path: "/" } };
  const { body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  const [decision] = JSON.parse(body).check_response.limiter_decisions;
  const { label, request_id, tokens_info } = decision.concurrency_limiter_info;
  if (!decision.dropped) {
    const { policy_name, policy_hash, component_id } = decision;
    const ref = { policy_name, policy_hash, component_id, label, request_id, tokens: 1 };
    const end = { control_point: controlPoint, inflight_requests: [ref] };
    const ended = await call(address, "POST", "/v1/flowcontrol/flowend", end);
    assert.equal(JSON.parse(ended.body).token_return_statuses[0].returned, true, ended.body);
  }
  return Number(tokens_info.current);
}
