// Every metric of the table is exposed by the part that counts it: by processes that did some work (a controller and agents
// that share a store, a standalone, an injector) and by the counters of this room, which were told of events that only
// much traffic brings about. All processes run inside the process of the test.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Scope } from "#base/scope.ts";
import { startControllerProcess } from "#controller/process.ts";
import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import { memoryStore } from "#store/memory.ts";
import { METRICS } from "#telemetry/metrics/table.ts";
import { cluster } from "../../injector/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import { accessTo } from "../../kit/kube/fake-api.ts";
import { fakeCluster, SERVICES, SLICES, service, slice } from "../../kit/kube/fake-cluster.ts";
import { fakeScales } from "../../kit/kube/fake-scales.ts";
import { variables } from "../../kit/process.ts";
import { processContext } from "../../kit/process-context.ts";
import { begin, call, endFlow, passes } from "../../kit/sluice/check.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { scraped } from "../../kit/sluice/scrape.ts";
import { standalone } from "../../kit/sluice/standalone.ts";
import { connectionTo } from "../../kit/sluice/stored.ts";
import { until } from "../../kit/until.ts";
import { fakeServer } from "../../prometheus/kit.ts";
import { everyEvent } from "./every-event.ts";

/** Metrics that no process of this test exposes. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  sluice_counter_lost_debts_total:
    "an agent must lose leases that it owes to another one; test/counters/leases does that without a process",
  sluice_metrics_inconsistent_total:
    "no part exposes a wrong sample; metrics.test.ts has one that does",
};

const POLICY = `circuit:
  evaluation_interval: 0.1s
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 100 } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 1s }
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: shop }]
          in_ports: { max_concurrency: { constant_signal: { value: 10 } } }
          parameters: { max_inflight_duration: 10s }
    - alerter: { in_ports: { signal: { constant_signal: { value: 1 } } }, parameters: { alert_name: busy } }
    - auto_scale:
        pod_scaler:
          in_ports: { replicas: { constant_signal: { value: 1 } } }
          kubernetes_object_selector: { namespace: shop, api_version: apps/v1, kind: Deployment, name: web }
`;
const POD = "10.0.0.1";

const includes = (address: string, name: string) =>
  until(`${address} exposes ${name}`, async () => (await scraped(address)).includes(`\n${name}`));

/** The surroundings of a process, which is cut when the test ends. */
function around(t: TestContext, seed = 1, env: Readonly<Record<string, string>> = {}) {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = { ...memoryLog(), close: async () => undefined };
  return { chance: seededChance(seed), log, context: processContext(scope, { env }) };
}

/** A controller that discovers pods, and two agents that count for each other and look pods up in the store. */
async function fleet(t: TestContext): Promise<readonly string[]> {
  const store = memoryStore();
  const kubernetes = await fakeCluster(t, {
    [SLICES]: [slice("a", "1", { web: POD })],
    [SERVICES]: [service("10.96.0.7")],
  });
  const discovery = { SERVICE_DISCOVERY_KUBERNETES_ENABLED: "true" };
  const controller = await startControllerProcess({
    ...around(t, 1, kubernetes.env),
    store: connectionTo(store),
    config: configOf("controller", variables("controller", discovery)),
    policies: [folderOf(t, { "p.yaml": POLICY })],
  });
  const agent = async (seed: number) => {
    const { main } = await startAgentProcess({
      ...around(t, seed, { KUBERNETES_SERVICE_HOST: "10.96.0.1", POD_IP: POD }),
      store: connectionTo(store),
      config: configOf(
        "agent",
        variables("agent", {
          COUNTERS_ENGINE: "peers",
          DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
          DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
          ETCD_SNAPSHOT_PATH: join(folderOf(t), "rules"),
          SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller",
        }),
      ),
    });
    return main.address;
  };
  const agents = [await agent(1), await agent(2)];
  for (const address of agents) {
    const request = { source: { address: POD }, destination: { address: POD } };
    const check = { control_point: "shop", ...request, request: { method: "GET", path: "/" } };
    await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
    await includes(address, "sluice_discovery_lookups_total");
  }
  await call(controller.main.address, "GET", "/v1/agents/controlpoints");
  await includes(controller.main.address, "sluice_policy_warnings");
  await includes(controller.main.address, "sluice_discovery_published");
  return [controller.main.address, ...agents];
}

/** A standalone with an Alertmanager, a server for its samples, and objects that it scales. */
async function alone(t: TestContext): Promise<string> {
  const server = await fakeServer(t, (_, reply) => reply.end("{}"));
  const { address } = await standalone(t, {
    policies: { "p.yaml": POLICY },
    env: { SVC_AGENT_PROMETHEUS_ADDRESS: server.url },
    controller: {
      SVC_CONTROLLER_ALERTMANAGERS_CLIENTS: JSON.stringify([{ address: server.url }]),
      SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED: "true",
    },
    variables: accessTo(t, (await fakeScales(t)).api),
  });
  await passes(address, "shop", { user: "ann" });
  await endFlow(address, "shop", (await begin(address, "shop")).slots);
  for (const name of ["sluice_alerts_total", "sluice_remote_write_samples_total"])
    await includes(address, name);
  return address;
}

async function injector(t: TestContext): Promise<string> {
  const { kubeconfig } = await cluster(t);
  const folder = folderOf(t);
  const own = { WEBHOOK_ADDR: "127.0.0.1:0", SIDECAR_IMAGE: "sluice:1" };
  const env = variables("injector", own);
  const { main } = await startInjectorProcess({
    ...around(t, 1, { KUBECONFIG: kubeconfig }),
    config: loadInjector({ env, configPath: folder, dotenvDir: folder }),
  });
  await includes(main.address, "sluice_injector_missed_pods");
  return main.address;
}

/** The names and types of the metrics on a page. */
function typesOn(page: string): readonly string[] {
  return [...page.matchAll(/^# TYPE (\S+ \S+)$/gm)].map(([, type = ""]) => type);
}

test("processes and counters expose exactly the metrics of the table, with their types and labels", async (t) => {
  const addresses = [...(await fleet(t)), await alone(t), await injector(t)];
  const pages = [
    (await everyEvent().scrape()).body,
    ...(await Promise.all(addresses.map((at) => scraped(at)))),
  ];
  const wanted = Object.entries(METRICS).filter(([name]) => !Object.hasOwn(ELSEWHERE, name));
  assert.deepEqual(
    [...new Set(pages.flatMap(typesOn))].sort(),
    wanted.map(([name, { type }]) => `${name} ${type}`).sort(),
  );
  for (const line of pages
    .join("\n")
    .split("\n")
    .filter((each) => /^[a-z]/.test(each))) {
    const [, series = "", labels = ""] = /^([a-z0-9_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    const name = series in METRICS ? series : series.replace(/_(bucket|sum|count)$/, "");
    assert.ok(name in METRICS, line);
    const row = METRICS[name as keyof typeof METRICS];
    const keys = [...labels.matchAll(/([a-z_]+)="/g)].map(([, key = ""]) => key);
    const known: string[] = [...row.labels];
    if (series.endsWith("_bucket")) known.push("le");
    if (series === name && row.type === "summary") known.push("quantile");
    assert.deepEqual(keys.sort(), known.sort(), line);
  }
});
