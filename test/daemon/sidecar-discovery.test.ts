// Services in sidecars, which have no right on the Kubernetes API: the leading controller discovers them and publishes them
// through a real etcd. The API server is one that the test writes itself; test/kube/cluster/ has the real one.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DISCOVERY } from "#sync/keys.ts";
import { type Etcd, startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import {
  checked,
  type FakeCluster,
  fakeCluster,
  SERVICES,
  SLICES,
  service,
  slice,
} from "../kit/kube/fake-cluster.ts";
import { leads, listening, standsBy, startSluice } from "../kit/servers/sluice.ts";
import { call } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";

const [IN_A, IN_B] = ["web.a.svc.cluster.local", "web.b.svc.cluster.local"];
const OWN = "10.0.0.1";

/** Rejects every request to one service. */
const CLOSED = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress, service: ${IN_A} }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 60s }
`;

const OBJECTS = {
  [SLICES]: [slice("a", "1", { "web-1": OWN }), slice("b", "1", { "web-1": "10.0.0.2" })],
  [SERVICES]: [service("10.96.0.7")],
};

async function controllerOf(
  t: TestContext,
  { endpoints }: Etcd,
  { env }: FakeCluster,
  enabled = "true",
) {
  const policies = folderOf(t, { "closed.yaml": CLOSED });
  const settings = {
    SERVICE_DISCOVERY_KUBERNETES_ENABLED: enabled,
    SERVER_ADMINISTRATION_INSECURE: "true",
  };
  const controller = startSluice(
    t,
    "controller",
    endpoints,
    ["--policies", policies],
    settings,
    env,
  );
  await leads(controller);
  return controller;
}

/** An agent in the pod with this address, without a way to the API server. */
async function sidecar(t: TestContext, { endpoints }: Etcd, address = OWN) {
  const own = {
    SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller",
    COUNTERS_ENGINE: "local",
    SERVER_ADMINISTRATION_INSECURE: "true",
  };
  const agent = startSluice(t, "agent", endpoints, [], own, { POD_IP: address });
  await listening(agent);
  return agent.address();
}

const degraded = async (address: string, dependency: string) => {
  const { body } = await call(address, "GET", "/metrics");
  const line = body
    .split("\n")
    .find((each) => each.includes(`degraded{dependency="${dependency}"`));
  return line?.endsWith(" 1") === true;
};

const addressesOf = async (address: string) => {
  const { body } = await call(address, "GET", "/v1/discovery/entities");
  return Object.keys(JSON.parse(body).entities_by_ip_address.entities).toSorted();
};

test("a sidecar without any right knows services by what the leading controller publishes", async (t) => {
  const etcd = await startEtcd(t);
  const cluster = await fakeCluster(t, OBJECTS);
  const controller = await controllerOf(t, etcd, cluster);
  const agent = await sidecar(t, etcd);
  const isClosed = async (destination: string) =>
    (await checked(agent, "10.0.0.2", destination)).decision === "DECISION_TYPE_REJECTED";
  await until("its own service has a policy", () => isClosed(OWN));
  assert.ok(await isClosed("127.0.0.1"), "the pod itself");
  assert.ok(!(await isClosed("192.0.2.1")));
  await until("the source is known", async () => {
    const { services, source, destination } = await checked(agent, "10.0.0.2", OWN);
    assert.deepEqual([services, destination], [[IN_A], IN_A]);
    return source === IN_B;
  });
  await until("the address of a Service, too", () => isClosed("10.96.0.7"));
  assert.deepEqual(await addressesOf(agent), [OWN, "10.0.0.2", "10.96.0.7"]);
  assert.deepEqual(await addressesOf(controller.address()), [OWN, "10.0.0.2", "10.96.0.7"]);

  await until("it is watched", () => cluster.watches.has(SLICES));
  cluster.watches.get(SLICES)?.send("MODIFIED", slice("a", "2", { "web-2": "10.0.0.3" }));
  await until("the pod belongs to no service", async () => !(await isClosed(OWN)));
  await until("another one does", () => isClosed("10.0.0.3"));
  cluster.watches.get(SLICES)?.send("MODIFIED", slice("b", "3", { "web-1": OWN }));
  await until("another pod has its address", async () => {
    return (await checked(agent, "192.0.2.1", OWN)).destination === IN_B;
  });
  assert.ok(!(await isClosed(OWN)));
});

test("what is known stays while the API server, the controllers or etcd are away, and the next leader removes dead pods", async (t) => {
  const etcd = await startEtcd(t);
  const cluster = await fakeCluster(t, OBJECTS);
  const controller = await controllerOf(t, etcd, cluster);
  const agent = await sidecar(t, etcd);
  const known = async () => (await checked(agent, "10.0.0.2", OWN)).destination === IN_A;
  const both = async () => (await known()) && (await sourceOf(agent)) === IN_B;
  await until("both ends are known", both);

  cluster.api.away = true;
  await until("the controller says so", () => degraded(controller.address(), "discovery"));
  assert.deepEqual((await addressesOf(controller.address())).length, 3);
  assert.ok(await both());

  controller.kill("SIGKILL");
  await controller.ended;
  assert.ok(await both());
  // Nobody deletes its key meanwhile.
  cluster.objects = { [SLICES]: [slice("b", "5", { "web-1": "10.0.0.2" })] };
  const restarted = await sidecar(t, etcd);
  await until("a sidecar that starts now knows it, too", async () => {
    return (await checked(restarted, "192.0.2.1", OWN)).destination === IN_A;
  });
  const successor = await controllerOf(t, etcd, cluster);
  const standby = startSluice(t, "controller", etcd.endpoints, ["--policies", folderOf(t)], {
    SERVICE_DISCOVERY_KUBERNETES_ENABLED: "true",
    SERVER_ADMINISTRATION_INSECURE: "true",
  });
  await standsBy(standby);
  const refused = await call(standby.address(), "GET", "/v1/discovery/entities");
  assert.equal(refused.status, 503, refused.body);
  assert.match(refused.body, /the controller that leads discovers/);
  await until("the API server is away from it, too", () =>
    degraded(successor.address(), "discovery"),
  );
  assert.ok(await both(), "nothing is deleted before all is known");
  cluster.api.away = false;
  await until("the dead pod is gone", async () => !(await known()));
  assert.equal(await sourceOf(agent), IN_B);
  assert.deepEqual(await addressesOf(successor.address()), ["10.0.0.2"]);

  const [member = assert.fail()] = etcd.members;
  await member.freeze();
  t.after(() => member.thaw());
  await until("the agent says so", () => degraded(agent, "store"));
  assert.equal(await sourceOf(agent), IN_B);
  assert.equal((await call(agent, "GET", "/v1/status/system/readiness")).status, 200);
});

const sourceOf = async (agent: string) => (await checked(agent, "10.0.0.2", OWN)).source;

test("a leader that does not discover removes what is left", async (t) => {
  const etcd = await startEtcd(t);
  const cluster = await fakeCluster(t, OBJECTS);
  const store = openEtcd(t, etcdSettings(etcd.endpoints));
  const count = async () => (await store.list(DISCOVERY)).entries.length;
  const controller = await controllerOf(t, etcd, cluster);
  await until("three addresses and the key that says so are published", async () => {
    return (await count()) === 4;
  });
  controller.kill("SIGTERM");
  await controller.ended;
  assert.equal(await count(), 4, "an end leaves them");
  await controllerOf(t, etcd, cluster, "false");
  await until("they are gone", async () => (await count()) === 0);
});
