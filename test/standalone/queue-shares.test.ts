// A scheduler under several times its limit, through the port: callers who ask again as soon as they are answered get the
// shares that the policy names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const CheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");

const CHECK = "/aperture.flowcontrol.check.v1.FlowControlService/Check";

const POLICY = `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        quota_scheduler:
          in_ports:
            bucket_capacity: {constant_signal: {value: 5}}
            fill_amount: {constant_signal: {value: 150}}
          rate_limiter: {interval: 1s}
          scheduler:
            workloads:
              - name: gold
                label_matcher: {match_labels: {tier: gold}}
                parameters: {priority: 3}
              - name: silver
                label_matcher: {match_labels: {tier: silver}}
                parameters: {priority: 1}
          selectors: [{control_point: here, agent_group: default}]
`;

/** Callers of each workload. */
const CALLERS = 30;
/** Flows that pass before they are counted: the bucket was full, and the first callers found no queue. */
const WARM_UP = 60;
const COUNTED = 600;

test("workloads get their shares under an overload, within 10 %", async (t) => {
  const { address } = await standalone(t, { policies: { "queue.yaml": POLICY } });
  await until("the policy is in force", async () => {
    const decisions = await counted(address, "sluice_circuit_decisions_total", "policy_name");
    return (decisions["queue"] ?? 0) > 0;
  });
  const client = grpcClient(t, address);
  const passed = { gold: 0, silver: 0 };
  let all = 0;
  const caller = async (tier: "gold" | "silver") => {
    const labels = { tier };
    const request = create(CheckRequestSchema, { controlPoint: "here", labels });
    const bytes = toBinary(CheckRequestSchema, request);
    while (all < WARM_UP + COUNTED) {
      const { code, message } = await client.unary(CHECK, bytes, { timeout: 60_000 });
      assert.equal(code, 0);
      const { decisionType } = fromBinary(CheckResponseSchema, message ?? new Uint8Array());
      if (decisionType !== 0) continue;
      all += 1;
      if (all > WARM_UP && all <= WARM_UP + COUNTED) passed[tier] += 1;
    }
  };
  const tiers = Array.from({ length: CALLERS }, () => ["gold", "silver"] as const).flat();
  await Promise.all(tiers.map(caller));
  const share = passed.gold / (passed.gold + passed.silver);
  assert.ok(Math.abs(share / 0.75 - 1) < 0.1, JSON.stringify(passed));
  const waiting = await counted(address, "sluice_scheduler_waiting_flows", "policy_name");
  assert.deepEqual(waiting, { queue: 0 });
});
