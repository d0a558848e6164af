// A real Envoy sends its access log to the agent, which fills the histogram of a policy's flux meter and frees
// concurrency slots.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { http1 } from "../kit/clients/http.ts";
import { folderOf } from "../kit/folder.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy } from "../kit/servers/envoy.ts";
import { scraped } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const POLICY = `
circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors:
            - control_point: ingress
              label_matcher: { match_labels: { http.path: /shut } }
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s }
    - flow_control:
        concurrency_limiter:
          selectors:
            - control_point: ingress
              label_matcher: { match_labels: { http.path: /one-at-a-time } }
          in_ports: { max_concurrency: { constant_signal: { value: 1 } } }
          parameters: { max_inflight_duration: 600s }
resources:
  flow_control:
    flux_meters:
      latency:
        static_buckets: { buckets: [20, 200, 2000] }
        selectors: [{ control_point: ingress }]
`;

/** A service that answers after the time in the query: `?ms=50`. */
async function slowService(t: TestContext): Promise<number> {
  const server = createServer(({ url = "" }, response) => {
    const { searchParams } = new URL(url, "http://service");
    response.statusCode = Number(searchParams.get("status") ?? 200);
    void sleep(Number(searchParams.get("ms") ?? 0)).then(() => response.end("done"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  return address !== null && typeof address === "object" ? address.port : 0;
}

/** Sum of the series of this name with these labels on the `/metrics` page. */
async function read(
  address: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const lines = (await scraped(address)).split("\n").filter((line) => line.startsWith(`${name}{`));
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const fit = lines.filter((line) => wanted.every((pair) => line.includes(pair)));
  return fit.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

for (const [kind, format] of [
  ["tcp", "full"],
  ["unix", "full"],
  ["unix", "slim"],
  ["tcp", "grpc"],
] as const) {
  test(`requests through Envoy over ${kind} are measured, with a ${format} access log`, async (t) => {
    const addr = kind === "tcp" ? "127.0.0.1:0" : `unix:${join(folderOf(t), "sluice.sock")}`;
    const { address } = await standalone(t, {
      policies: { "latency.yaml": POLICY },
      env: { SVC_AGENT_SERVER_LISTENER_ADDR: addr },
    });
    const envoy = await startEnvoy(t, {
      agent: address,
      service: await slowService(t),
      edit(bootstrap) {
        bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
        if (format !== "full") bootstrap.accessLogOf(`access-log-${format}.yaml`);
      },
    });
    const ask = http1(t, envoy.url);
    const OK = {
      flux_meter_name: "latency",
      policy_name: "latency",
      flow_status: "OK",
      decision_type: "DECISION_TYPE_ACCEPTED",
      http_status_code: "200",
    };
    const measured = (labels = {}) => read(address, "flux_meter_count", labels);
    const becomes = (count: number) =>
      until(`${count} are measured`, async () => (await measured()) === count);
    const buckets = () =>
      Promise.all(
        ["20", "200", "2000", "+Inf"].map((le) =>
          read(address, "flux_meter_bucket", { ...OK, le }),
        ),
      );

    await ask({ path: "/?ms=60" });
    await becomes(1);
    assert.deepEqual(await buckets(), [0, 1, 1, 1]);
    const sum = await read(address, "flux_meter_sum", OK);
    assert.ok(sum >= 40 && sum <= 200, `${sum} ms`);

    await ask({ path: "/?ms=250" });
    await ask({ path: "/?ms=60&status=500" });
    await becomes(3);
    assert.deepEqual(await buckets(), [0, 1, 2, 2]);
    assert.equal(await measured({ http_status_code: "500", flow_status: "Error" }), 1);

    // The request never reached the service, so there is no duration to count.
    assert.equal((await ask({ path: "/shut" })).status, 429);
    const refused = { decision_type: "DECISION_TYPE_REJECTED", http_status_code: "429" };
    // The filter of the gRPC access log leaves it out.
    if (format !== "grpc")
      await until(
        "the refusal was logged",
        async () => (await read(address, "invalid_flux_meter_total", refused)) === 1,
      );
    assert.equal(await measured(), 3);

    const decisions = envoy.log().map((entry) => typeof entry["check_response"] === "string");
    assert.ok(decisions.every((there) => there === (format !== "slim")));

    // Without the access log the slot would be held for ten minutes.
    assert.equal((await ask({ path: "/one-at-a-time?ms=60" })).status, 200);
    await becomes(4);
    assert.equal((await ask({ path: "/one-at-a-time?ms=60" })).status, 200);
  });
}
