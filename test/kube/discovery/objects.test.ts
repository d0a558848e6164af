// Reading EndpointSlices and Services, whichever fields are missing.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeObject } from "#kube/api/objects.ts";
import { clusterAddressesOf, clusterDomainOf, podsOf } from "#kube/discovery/objects.ts";

const TARGET = { kind: "Pod", name: "web-1", namespace: "a", uid: "u1" };

function slice(endpoints: readonly unknown[], over: object = {}): KubeObject {
  const labels = { "kubernetes.io/service-name": "web" };
  const metadata = { name: "web-x", namespace: "a", labels };
  return { metadata, addressType: "IPv4", endpoints, ...over } as KubeObject;
}

const pods = (endpoints: readonly unknown[], over: object = {}) =>
  podsOf(slice(endpoints, over), "cluster.local");

test("an endpoint is a pod with the service of its slice", () => {
  assert.deepEqual(pods([{ addresses: ["10.0.0.1"], targetRef: TARGET, nodeName: "n1" }]), [
    {
      uid: "u1",
      ipAddress: "10.0.0.1",
      name: "web-1",
      namespace: "a",
      nodeName: "n1",
      services: ["web.a.svc.cluster.local"],
    },
  ]);
  const [six] = pods([{ addresses: ["2001:DB8:0::1"], targetRef: TARGET }]) ?? [];
  assert.equal(six?.ipAddress, "2001:db8::1");
});

test("what has no pod, no name or no address is left out", () => {
  const addresses = ["10.0.0.1"];
  const without = [
    { addresses },
    { addresses, targetRef: null },
    { addresses, targetRef: { kind: "Node", name: "n1" } },
    { addresses, targetRef: { kind: "Pod" } },
    { targetRef: TARGET },
    null,
    "x",
  ];
  assert.equal(pods(without), undefined);
  for (const endpoints of [null, "x", {}]) assert.equal(pods([], { endpoints }), undefined);
  const good = { addresses, targetRef: TARGET };
  assert.equal(pods([...without, good])?.length, 1);
  assert.equal(pods([good], { addressType: "FQDN" }), undefined);
  assert.equal(pods([good], { metadata: { name: "x", namespace: "a" } }), undefined);
});

test("pods count while they are ready, or still serve", () => {
  for (const [conditions, counts] of [
    [undefined, true],
    [{}, true],
    [{ ready: true }, true],
    [{ ready: false }, false],
    [{ ready: false, serving: false, terminating: true }, false],
    [{ ready: false, serving: true, terminating: true }, true],
  ] as const) {
    const found = pods([{ addresses: ["10.0.0.1"], targetRef: TARGET, conditions }]);
    assert.equal(found !== undefined, counts, JSON.stringify(conditions));
  }
});

test("a Service of type ClusterIP is an entity at each of its addresses", () => {
  const of = (spec: object) =>
    clusterAddressesOf({ metadata: { name: "web", namespace: "a" }, spec } as KubeObject, "c.l");
  const own = {
    uid: "10.96.0.7",
    ipAddress: "10.96.0.7",
    name: "ClusterIP-a-web-10.96.0.7",
    namespace: "a",
    nodeName: "",
    services: ["web.a.svc.c.l"],
  };
  assert.deepEqual(of({ type: "ClusterIP", clusterIP: "10.96.0.7" }), [own]);
  const dual = of({ clusterIP: "10.96.0.7", clusterIPs: ["10.96.0.7", "fd00::7"] });
  assert.deepEqual(
    dual?.map(({ ipAddress }) => ipAddress),
    ["10.96.0.7", "fd00::7"],
  );
  for (const spec of [
    { type: "ClusterIP", clusterIP: "None", clusterIPs: ["None"] },
    { type: "NodePort", clusterIP: "10.96.0.7" },
    { type: "LoadBalancer", clusterIP: "10.96.0.7" },
    { type: "ExternalName", externalName: "x.example" },
    {},
  ])
    assert.equal(of(spec), undefined, JSON.stringify(spec));
  assert.equal(clusterAddressesOf({ metadata: { name: "web" } }, "c.l"), undefined);
});

test("the domain of the cluster is that of the resolver", () => {
  const usual =
    "nameserver 10.96.0.10\nsearch a.svc.c.l svc.c.l c.l example.com\noptions ndots:5\n";
  assert.equal(clusterDomainOf(usual), "c.l");
  assert.equal(clusterDomainOf("search svc.cluster.local. \n"), "cluster.local");
  assert.equal(clusterDomainOf("search example.com\n"), undefined);
  assert.equal(clusterDomainOf(""), undefined);
});
