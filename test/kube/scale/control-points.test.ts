// Kinds with a scale and the objects of these kinds, as the API server lists them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { controlPoints, MAX_POINTS } from "#kube/scale/control-points.ts";
import { scalableKinds } from "#kube/scale/kinds.ts";
import { replicasOf, scaleWith } from "#kube/scale/object.ts";
import { clientOf } from "../../kit/kube/fake-api.ts";
import { fakeScales } from "../../kit/kube/fake-scales.ts";

const NEVER = new AbortController().signal;
const SHOP = { group: "example.com", kind: "Shop", plural: "shops", hasScale: true };

test("kinds with a scale, in every version, if their objects have a namespace", async (t) => {
  const cluster = await fakeScales(t);
  cluster.kinds = [
    ...cluster.kinds,
    { ...SHOP, version: "v2" },
    { ...SHOP, version: "v1" },
    { ...SHOP, version: "v1", plural: "towns", kind: "Town", scope: "Cluster" },
  ];
  const kinds = await scalableKinds(clientOf(t, cluster.api));
  assert.deepEqual(
    kinds.map(({ apiVersion, kind, resource }) => [apiVersion, kind, resource.plural]),
    [
      ["apps/v1", "Deployment", "deployments"],
      ["example.com/v2", "Shop", "shops"],
      ["example.com/v1", "Shop", "shops"],
    ],
  );
});

test("a server without the discovery of all groups is named as the reason", async (t) => {
  const cluster = await fakeScales(t);
  const { before } = cluster.api;
  cluster.api.before = (asked) => {
    if (asked.path !== "/apis") return before(asked);
    asked.reply(200, { kind: "APIGroupList", groups: [] });
    return true;
  };
  await assert.rejects(
    scalableKinds(clientOf(t, cluster.api)),
    /which Kubernetes has since 1\.27, got APIGroupList/,
  );
});

test("more kinds than anybody has are refused", async (t) => {
  const cluster = await fakeScales(t);
  cluster.kinds = Array.from({ length: 1_001 }, (_, at) => ({
    ...SHOP,
    version: "v1",
    kind: `Shop${at}`,
  }));
  await assert.rejects(scalableKinds(clientOf(t, cluster.api)), /more than 1000/);
});

test("control points are the objects that may be listed, once each and without those of an owner", async (t) => {
  const cluster = await fakeScales(t);
  cluster.kinds = [
    ...cluster.kinds,
    { ...SHOP, version: "v2" },
    { ...SHOP, version: "v1" },
    { ...SHOP, version: "v1", kind: "Secretive", plural: "secretives" },
    { ...SHOP, version: "v1", kind: "Broken", plural: "brokens" },
  ];
  const accepts = new Set<string | undefined>();
  const { before } = cluster.api;
  cluster.api.before = (asked) => {
    const [, plural] = /\/([a-z]+)$/.exec(asked.path) ?? [];
    if (asked.path === "/api" || asked.path === "/apis") return before(asked);
    accepts.add(asked.headers.accept);
    if (plural === "secretives") asked.reply(403, { message: "forbidden" });
    else if (plural === "brokens") asked.reply(500, { message: "broken" });
    else {
      const metadata = { name: plural, namespace: "shop" };
      const owned = { ...metadata, name: "owned", ownerReferences: [{ controller: true }] };
      const kept = { ...metadata, name: "named", ownerReferences: [{}] };
      asked.reply(200, { items: [metadata, owned, kept].map((each) => ({ metadata: each })) });
    }
    return true;
  };
  const { points, faults, isCut } = await controlPoints(clientOf(t, cluster.api), NEVER);
  assert.deepEqual(
    points.map(
      ({ apiVersion, kind, namespace, name }) => `${apiVersion} ${kind} ${namespace}/${name}`,
    ),
    [
      "apps/v1 Deployment shop/deployments",
      "apps/v1 Deployment shop/named",
      "example.com/v2 Shop shop/shops",
      "example.com/v2 Shop shop/named",
    ],
  );
  assert.equal(faults.length, 1);
  assert.match(faults[0]?.message ?? "", /brokens: status 500: broken/);
  assert.equal(isCut, false);
  // Only names are asked for, not specs and statuses.
  assert.deepEqual([...accepts].length, 1);
  assert.match([...accepts][0] ?? "", /PartialObjectMetadataList/);
});

test("an answer has an end, and says so", async (t) => {
  const cluster = await fakeScales(t);
  const { before } = cluster.api;
  let pages = 0;
  cluster.api.before = (asked) => {
    if (!asked.path.endsWith("/deployments")) return before(asked);
    pages += 1;
    const items = Array.from({ length: 500 }, (_, at) => ({
      metadata: { name: `${pages}-${at}` },
    }));
    asked.reply(200, { items, metadata: { continue: "more" } });
    return true;
  };
  const { points, isCut } = await controlPoints(clientOf(t, cluster.api), NEVER);
  assert.deepEqual([points.length, isCut], [MAX_POINTS, true]);
});

test("numbers of a scale: what is left out is 0, and what is no number is refused", () => {
  const metadata = { name: "api", namespace: "shop", resourceVersion: "7" };
  const scale = (spec: unknown, status: unknown) => ({ metadata, spec, status });
  assert.deepEqual(replicasOf(scale({}, undefined)), { configured: 0, actual: 0 });
  assert.deepEqual(replicasOf(scale({ replicas: 2 }, { replicas: 1 })), {
    configured: 2,
    actual: 1,
  });
  for (const wrong of ["2", 1.5, {}])
    assert.throws(() => replicasOf(scale({ replicas: wrong }, {})), TypeError);
  assert.deepEqual(scaleWith(scale({ replicas: 2 }, {}), 3), {
    apiVersion: "autoscaling/v1",
    kind: "Scale",
    metadata,
    spec: { replicas: 3 },
  });
});
