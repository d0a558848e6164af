// The loop is closed with no other server: what the agent counts moves the numbers that it limits by.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, passes } from "../kit/sluice/check.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const TICK_MS = 200;
/** The own meters are read once a second; a query asked in one tick is seen in the next. */
const SEEN_WITHIN_MS = 1_000 + 2 * TICK_MS;
/** For a machine that has other things to do. */
const SPARE_MS = 4_000;

/** As many requests a user as were seen at another control point. */
const FOLLOWING = `circuit:
  evaluation_interval: 0.2s
  components:
    - query:
        promql:
          query_string: sum(flowcontrol_requests_total{control_point="seen"})
          evaluation_interval: 0.2s
          out_ports: { output: { signal_name: SEEN } }
    - first_valid:
        in_ports: { inputs: [{ signal_name: SEEN }, { constant_signal: { value: 0 } }] }
        out_ports: { output: { signal_name: CAPACITY } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop, agent_group: default }]
          in_ports:
            bucket_capacity: { signal_name: CAPACITY }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user }
`;

test("a rate limit follows the agent's own metrics", async (t) => {
  const { address } = await standaloneProcess(t, { policies: { "follow.yaml": FOLLOWING } });
  const capacity = async () => {
    const { body } = await call(address, "GET", "/v1/decisions/rate_limiter");
    const { decisions } = JSON.parse(body) as { readonly decisions: Record<string, string> };
    const [text = "{}"] = Object.values(decisions);
    const { rateLimiterDecision } = JSON.parse(text) as {
      readonly rateLimiterDecision?: { readonly bucketCapacity?: number };
    };
    return rateLimiterDecision?.bucketCapacity ?? 0;
  };
  assert.equal(await passes(address, "shop", { user: "ann" }), false, "nothing was seen yet");
  for (const seen of [3, 5]) {
    for (let at = seen === 3 ? 0 : 3; at < seen; at++) assert.ok(await passes(address, "seen"));
    const soon = SEEN_WITHIN_MS + SPARE_MS;
    await until(`${seen} are seen`, async () => (await capacity()) === seen, soon);
    const answers: boolean[] = [];
    for (let at = 0; at <= seen; at++)
      answers.push(await passes(address, "shop", { user: `user-${seen}` }));
    assert.deepEqual(answers, [...Array<boolean>(seen).fill(true), false]);
  }
  const { body } = await call(address, "GET", "/metrics");
  assert.match(body, /signal_reading_count\{signal_name="CAPACITY"/);
});
