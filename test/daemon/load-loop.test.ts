// A control loop over two agents: they publish what they measure to a real Prometheus, a controller in a third process
// asks there for the sum, and the limit that follows from it reaches both. Real processes, a real etcd.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decode } from "#wire/protobuf/messages.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import { startPrometheus } from "../kit/servers/prometheus.ts";
import { listening, type SluiceChild, startSluice } from "../kit/servers/sluice.ts";
import { passes } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";

/** At `shop` each user may pass as often as both agents together have accepted at `work`. */
const FOLLOWING = `circuit:
  evaluation_interval: 0.2s
  components:
    - query:
        promql:
          query_string: sum(flowcontrol_decisions_total{control_point="work",decision_type="DECISION_TYPE_ACCEPTED"})
          evaluation_interval: 0.2s
          out_ports: { output: { signal_name: LOAD } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { signal_name: LOAD }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 3600s, limit_by_label_key: http.request.header.user, on_failure: closed }
`;

async function check(agent: SluiceChild, controlPoint: string, times: number, user = "") {
  let passed = 0;
  for (let at = 0; at < times; at++) {
    if (await passes(agent.address(), controlPoint, { user })) passed += 1;
  }
  return passed;
}

/** Waits until a user whom the agent has not seen may pass exactly `limit` times. */
async function admits(agent: SluiceChild, limit: number): Promise<void> {
  let user = 0;
  await until(`each user passes ${limit} times`, async () => {
    user += 1;
    return (await check(agent, "shop", limit + 5, `${limit}-${user}`)) === limit;
  });
}

/** Two agents and a controller that share an etcd and a metrics server. */
async function fleet(t: TestContext, policy: string) {
  const [{ endpoints }, prometheus] = await Promise.all([startEtcd(t), startPrometheus(t)]);
  const env = { PROMETHEUS_ADDRESS: prometheus.address };
  const publishing = { ...env, OTEL_BATCH_POSTROLLUP_TIMEOUT: "200ms" };
  const agents = [1, 2].map(() => startSluice(t, "agent", endpoints, [], publishing));
  const policies = folderOf(t, { "p.yaml": policy });
  const controller = startSluice(t, "controller", endpoints, ["--policies", policies], env);
  await listening(...agents, controller);
  const store = openEtcd(t, etcdSettings(endpoints));
  const limit = async () => {
    const { entries } = await store.list("/decisions/rate_limiter/");
    const value = entries[0]?.value;
    if (value === undefined) return undefined;
    const decision = decode("aperture.policy.sync.v1.RateLimiterDecisionWrapper", value);
    return decision.rateLimiterDecision?.bucketCapacity ?? 0;
  };
  const limitIs = (wanted: number) =>
    until(`the limit is ${wanted}`, async () => (await limit()) === wanted);
  const [first = assert.fail(), second = assert.fail()] = agents;
  return { first, second, prometheus, limitIs };
}

test("a limit follows the load that two agents measure together, in both of them", async (t) => {
  const { first, second, limitIs, prometheus } = await fleet(t, FOLLOWING);
  assert.equal(await check(first, "work", 7), 7);
  assert.equal(await check(second, "work", 4), 4);
  await limitIs(11);
  for (const agent of [first, second]) await admits(agent, 11);
  assert.equal(await check(second, "work", 9), 9);
  await limitIs(20);
  for (const agent of [first, second]) await admits(agent, 20);

  // While the metrics server hangs, nothing is measured, and the policy closes. Then the loop goes on.
  await prometheus.freeze();
  assert.equal(await check(first, "work", 5), 5);
  await limitIs(0);
  prometheus.thaw();
  await limitIs(25);
  for (const agent of [first, second]) await admits(agent, 25);
});
