// The chart of agents in a real cluster: installed in each mode, changed from one to the other, rolled back and removed. The
// control plane is this file's own, because it looks at all that an installation leaves behind.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nothingLeft } from "../../kit/kube/charts/leftovers.ts";
import { Releases, restrictedNamespace, runningPods } from "../../kit/kube/charts/releases.ts";
import { startControlPlane } from "../../kit/kube/control-plane.ts";
import { until } from "../../kit/until.ts";

const plane = await startControlPlane({ after });
const { client } = plane;
const releases = new Releases(plane);

test("agents are installed in each mode, and change from one to the other", async (t) => {
  const namespace = await restrictedNamespace(t, client);
  const release = { chart: "sluice-agent", namespace } as const;
  const values = (installationMode: string) => ({
    installationMode,
    networkPolicy: { enabled: installationMode !== "KUBERNETES_SIDECAR" },
    dashboard: { enabled: true },
    agent: { config: { etcd: { endpoints: ["http://etcd:2379"] } } },
  });
  await releases.run("install", release, values("KUBERNETES_DEPLOYMENT"));
  assert.equal(await runningPods(client, namespace, "agent"), 2);
  await releases.run("upgrade", release, values("KUBERNETES_DAEMONSET"));
  await until(
    "one agent on each node",
    async () => (await runningPods(client, namespace, "agent")) === 1,
  );
  const service = await client.get({
    apiVersion: "v1",
    kind: "Service",
    name: "sluice-agent",
    namespace,
  });
  assert.equal(service?.["spec"].internalTrafficPolicy, "Local");
  await releases.run("upgrade", release, values("KUBERNETES_SIDECAR"));
  await until(
    "no agent of its own",
    async () => (await runningPods(client, namespace, "agent")) === 0,
  );
  const maps = await client.list({ apiVersion: "v1", kind: "ConfigMap", namespace });
  assert.ok(maps.some(({ metadata }) => metadata.name === "sluice-sidecars"));
  await releases.rollback(release);
  await until("two agents", async () => (await runningPods(client, namespace, "agent")) === 2);
  await releases.uninstall(release);
  await nothingLeft(client, namespace);
});
