// The SDK for JavaScript, as it was published: it ends a flow by a span alone, which names neither slots nor their ids.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApertureClient } from "@fluxninja/aperture-js";
import { credentials } from "@grpc/grpc-js";
import { begin as beginFlow, endFlow } from "../kit/sluice/check.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const THREE_IN_FLIGHT = `
circuit:
  components:
    - flow_control:
        concurrency_limiter:
          in_ports: { max_concurrency: { constant_signal: { value: 3 } } }
          parameters: { max_inflight_duration: 600s }
          selectors: [{ control_point: feature }]
`;

test("flows that end return their slots", async (t) => {
  const { address } = await standaloneProcess(t, { policies: { "three.yaml": THREE_IN_FLIGHT } });
  const channelCredentials = credentials.createInsecure();
  const client = new ApertureClient({ address, channelCredentials });
  t.after(() => client.shutdown());
  const begin = () => client.startFlow("feature", { labels: { user: "ann" } });
  const inFlight = async () => {
    const flow = await beginFlow(address, "feature");
    await endFlow(address, "feature", flow.slots);
    return flow.inFlight;
  };
  let passed = 0;
  for (let round = 0; round < 4; round++) {
    const flows = await Promise.all([begin(), begin(), begin()]);
    passed += flows.filter((flow) => flow.shouldRun()).length;
    const more = await begin();
    assert.equal(more.shouldRun(), false, "three are in flight");
    for (const flow of [...flows, more]) flow.end();
    await until("the exporter has sent the spans", async () => (await inFlight()) === 0);
  }
  assert.equal(passed, 12);
});
