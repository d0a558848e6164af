// The client of the API and its reflector against a real API server, which is also killed and restarted.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { seededChance } from "#base/chance.ts";
import type { Code, Fault } from "#base/fault.ts";
import { findAccess } from "#kube/api/access.ts";
import { KubeClient } from "#kube/api/client.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";
import { Reflector } from "#kube/api/reflector.ts";
import { namespaceOf, startControlPlane } from "../../kit/kube/control-plane.ts";
import { realClock } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import { clientSettings, NO_PROXY } from "../../prometheus/kit.ts";

const CONFIG_MAPS: Resource = { group: "", version: "v1", plural: "configmaps" };
const DEPLOYMENTS: Resource = { group: "apps", version: "v1", plural: "deployments" };
const SCALE = "scale";

async function setting(t: TestContext) {
  const plane = await startControlPlane(t, { parts: ["controller-manager"] });
  const access = await findAccess({ KUBECONFIG: plane.kubeconfig }, realClock);
  const client = new KubeClient({
    access,
    settings: clientSettings(),
    proxy: NO_PROXY,
    env: {},
    clock: realClock,
  });
  t.after(() => client.close());
  return { plane, client, namespace: await namespaceOf(t, plane.client) };
}

function map(namespace: string, name: string, data: Readonly<Record<string, string>> = {}) {
  const metadata = { name, namespace };
  return { apiVersion: "v1", kind: "ConfigMap", metadata, data } as KubeObject;
}

const refused = (work: Promise<unknown>, code: Code) =>
  assert.rejects(work, (fault: Fault) => fault.code === code);

test("objects are created, read, replaced, patched in each way, scaled and deleted", async (t) => {
  const { client, namespace } = await setting(t);
  const place = { namespace, name: "x" };
  const created = await client.create(CONFIG_MAPS, map(namespace, "x", { a: "1" }));
  await refused(client.create(CONFIG_MAPS, map(namespace, "x")), "ALREADY_EXISTS");
  await refused(client.create(CONFIG_MAPS, map(namespace, "Not_A_Name")), "INVALID_ARGUMENT");
  await client.update(CONFIG_MAPS, { ...created, data: { a: "2" } } as KubeObject);
  await refused(client.update(CONFIG_MAPS, { ...created, data: {} } as KubeObject), "ABORTED");
  await client.patch(CONFIG_MAPS, place, { merge: { data: { b: "3" } } });
  await client.patch(CONFIG_MAPS, place, {
    json: [{ op: "replace", path: "/data/a", value: "4" }],
  });
  const applied = { apply: map(namespace, "x", { c: "5" }), manager: "sluice", force: true };
  await client.patch(CONFIG_MAPS, place, applied);
  const read = (await client.get(CONFIG_MAPS, place)) as KubeObject & { readonly data: object };
  assert.deepEqual(read.data, { a: "4", b: "3", c: "5" });
  await client.delete(CONFIG_MAPS, place);
  await client.delete(CONFIG_MAPS, place);
  await refused(client.get(CONFIG_MAPS, place), "NOT_FOUND");

  await client.create(DEPLOYMENTS, {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "x", namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: "x" } },
      template: {
        metadata: { labels: { app: "x" } },
        spec: { containers: [{ name: "x", image: "none" }] },
      },
    },
  } as KubeObject);
  const scale = { ...place, subresource: SCALE } as const;
  await client.patch(DEPLOYMENTS, scale, { merge: { spec: { replicas: 3 } } });
  const scaled = (await client.get(DEPLOYMENTS, scale)) as KubeObject & {
    readonly spec: { readonly replicas: number };
  };
  assert.equal(scaled.spec.replicas, 3);
});

test("a reader keeps its state while the API server is killed, and then hears only what changed", async (t) => {
  const { plane, client, namespace } = await setting(t);
  // More than one page.
  const names = Array.from({ length: 620 }, (_, at) => `map-${at}`);
  for (let from = 0; from < names.length; from += 20) {
    const some = names.slice(from, from + 20);
    await Promise.all(some.map((name) => client.create(CONFIG_MAPS, map(namespace, name))));
  }
  const told: string[] = [];
  const states: string[] = [];
  const reflector = new Reflector({
    client,
    resource: CONFIG_MAPS,
    selection: { namespace, fieldSelector: "metadata.name!=kube-root-ca.crt" },
    keep: ({ metadata }) => metadata.name,
    changed: ({ puts, deletes }) => {
      told.push(
        ...[...puts.values()].map((name) => `+${name}`),
        ...deletes.map((key) => `-${key}`),
      );
    },
    followed: ({ state }) => states.push(state),
    clock: realClock,
    chance: seededChance(1),
  });
  t.after(() => reflector.close());
  await reflector.start();
  assert.equal(told.splice(0).length, names.length);
  await client.patch(CONFIG_MAPS, { namespace, name: "map-1" }, { merge: { data: { a: "1" } } });
  await until("a change is told", () => told.length > 0);
  assert.deepEqual(told.splice(0), ["+map-1"]);

  await plane.kill();
  await until("it is noticed", () => states.at(-1) === "away");
  assert.equal(reflector.size, names.length);
  await plane.restart();
  await client.delete(CONFIG_MAPS, { namespace, name: "map-2" });
  await client.create(CONFIG_MAPS, map(namespace, "new"));
  await until("both are told", () => told.length >= 2, 90_000);
  assert.deepEqual(told.toSorted(), [`+new`, `-${namespace}/map-2`]);
  await until("it is followed again", () => states.at(-1) === "following");
});
