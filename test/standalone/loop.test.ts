// The loop is closed with no other server: what the agent counts moves the numbers that it limits by. Its alerts go to
// the Alertmanagers of the configuration.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone, standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { fakeServer } from "../prometheus/kit.ts";

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

const alerting = (names: readonly string[]) => `circuit:
  evaluation_interval: 0.05s
  components:
${names
  .map(
    (name) =>
      `    - alerter: { in_ports: { signal: { constant_signal: { value: 1 } } }, parameters: { alert_name: ${name} } }`,
  )
  .join("\n")}
`;

test("alerts go to each of alertmanagers.clients, and alerter.channel_size of them wait for it", async (t) => {
  const [one, other] = [
    await fakeServer(t, (_, reply) => reply.end()),
    await fakeServer(t, (_, reply) => reply.end()),
  ];
  const { address } = await standalone(t, {
    policies: { "alerting.yaml": alerting(["first", "second", "third"]) },
    controller: {
      SVC_CONTROLLER_ALERTMANAGERS_CLIENTS: JSON.stringify(
        [one, other].map(({ url }) => ({ address: url })),
      ),
      SVC_CONTROLLER_ALERTER_CHANNEL_SIZE: "2",
      SVC_CONTROLLER_OTEL_BATCH_ALERTS_SEND_BATCH_SIZE: "0",
      SVC_CONTROLLER_OTEL_BATCH_ALERTS_TIMEOUT: "0.01s",
    },
  });
  for (const { heard } of [one, other])
    await until("alerts have come", () => heard.some(({ body }) => body.includes("third")));
  const { dropped = 0 } = await counted(address, "sluice_alerts_total", "result");
  assert.ok(dropped > 0, "a third alert finds two that wait");
});
