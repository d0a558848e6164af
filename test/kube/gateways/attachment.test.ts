// What gateways are told for a target, by the controller of their class, and why nothing is.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { AttachSettings } from "#kube/gateways/attach-settings.ts";
import {
  type Attachment,
  attachmentOf,
  CONTROL_PLANES,
  has,
  objectName,
} from "#kube/gateways/attachment.ts";
import type { Target } from "#policy/document/targets.ts";

const ENVOY_GATEWAY = "gateway.envoyproxy.io/gatewayclass-controller";
const ISTIO = "istio.io/gateway-controller";
const SETTINGS = { agents: "agents.sluice.svc.cluster.local:8081", failOpen: false };
const GATEWAY: Target = {
  kind: "Gateway",
  namespace: "shop",
  name: "edge",
  section: undefined,
  controlPoint: "gateway/shop/edge",
};
const ROUTE: Target = {
  ...GATEWAY,
  kind: "HTTPRoute",
  name: "checkout",
  controlPoint: "httproute/shop/checkout",
};
const OWNER = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy", name: "p", uid: "2" };

const attached = (
  target: Target,
  controllers: readonly string[],
  settings: Partial<AttachSettings> = {},
): Attachment => attachmentOf(target, controllers, [OWNER], { ...SETTINGS, ...settings });

// biome-ignore lint/suspicious/noExplicitAny: specs of two kinds, whose fields a test names
const specOf = ({ wanted }: Attachment): any => wanted[0]?.object.spec;

test("Envoy Gateway gets a SecurityPolicy for the target that names the agents and the control point", () => {
  const { wanted, faults } = attached(ROUTE, [ENVOY_GATEWAY]);
  assert.deepEqual(faults, []);
  assert.equal(wanted.length, 1);
  const object = wanted[0]?.object;
  assert.equal(object?.kind, "SecurityPolicy");
  assert.deepEqual(object?.metadata, {
    name: "sluice-httproute-checkout",
    namespace: "shop",
    labels: { "fluxninja.com/attached-by": "sluice-controller" },
    ownerReferences: [OWNER],
  });
  const { targetRefs, extAuth, mergeType } = specOf({ wanted, faults });
  const group = "gateway.networking.k8s.io";
  assert.deepEqual(targetRefs, [{ group, kind: "HTTPRoute", name: "checkout" }]);
  assert.deepEqual(extAuth.grpc.backendRefs, [{ name: "agents", namespace: "sluice", port: 8081 }]);
  assert.deepEqual(extAuth.contextExtensions[0], {
    name: "control-point",
    type: "Value",
    value: "httproute/shop/checkout",
  });
  // A login that is asked of the whole Gateway stays.
  assert.equal(mergeType, "StrategicMerge");
});

test("a Gateway's SecurityPolicy merges with none, and a section is named", () => {
  const listener = { ...GATEWAY, section: "https", controlPoint: "gateway/shop/edge/https" };
  const spec = specOf(attached(listener, [ENVOY_GATEWAY]));
  assert.equal(spec.mergeType, undefined);
  assert.equal(spec.targetRefs[0].sectionName, "https");
});

test("fail_open decides what requests get while no agent decides", () => {
  for (const failOpen of [false, true]) {
    assert.equal(specOf(attached(ROUTE, [ENVOY_GATEWAY], { failOpen })).extAuth.failOpen, failOpen);
    const [, { patch }] = specOf(attached(GATEWAY, [ISTIO], { failOpen })).configPatches;
    assert.equal(patch.value.typed_config.failure_mode_allow, failOpen);
  }
});

test("Istio gets an EnvoyFilter for the proxies of a Gateway", () => {
  const { wanted, faults } = attached(GATEWAY, [ISTIO]);
  assert.deepEqual(faults, []);
  assert.equal(wanted[0]?.object.kind, "EnvoyFilter");
  const spec = specOf({ wanted, faults });
  assert.equal(spec.targetRefs[0].name, "edge");
  const filter = spec.configPatches[1].patch.value.typed_config;
  assert.equal(
    filter.grpc_service.envoy_grpc.cluster_name,
    "outbound|8081||agents.sluice.svc.cluster.local",
  );
  assert.deepEqual(filter.grpc_service.initial_metadata[0], {
    key: "control-point",
    value: "gateway/shop/edge",
  });
});

test("what a control plane cannot express, and a control plane that nobody knows, is said", () => {
  const route = attached(ROUTE, [ISTIO]);
  assert.deepEqual(route.wanted, []);
  assert.match(route.faults[0] ?? "", /^Istio cannot ask about the requests of one HTTPRoute only/);
  const listener = attached({ ...GATEWAY, section: "https" }, [ISTIO]);
  assert.match(listener.faults[0] ?? "", /one listener only/);
  const other = attached(GATEWAY, ["example.com/gateways"]);
  assert.deepEqual(other.wanted, []);
  assert.match(
    other.faults[0] ?? "",
    /Sluice cannot configure its controller example\.com\/gateways/,
  );
  // A route of two gateways.
  const both = attached(ROUTE, [ENVOY_GATEWAY, ISTIO]);
  assert.equal(both.wanted.length, 1);
  assert.equal(both.faults.length, 1);
});

test("names of objects tell targets apart and are never too long", () => {
  const targets = [
    GATEWAY,
    ROUTE,
    { ...GATEWAY, section: "https", controlPoint: "gateway/shop/edge/https" },
    { ...GATEWAY, name: "edge-https", controlPoint: "gateway/shop/edge-https" },
    { ...GATEWAY, name: `${"a".repeat(252)}b`, controlPoint: "b" },
    { ...GATEWAY, name: `${"a".repeat(252)}c`, controlPoint: "c" },
  ];
  const names = targets.map(objectName);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.match(name, /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])$/);
});

test("Envoy Gateway's word counts: accepted by every gateway, in this generation, and overridden by nothing", () => {
  const { fault } = CONTROL_PLANES[ENVOY_GATEWAY];
  const condition = (type: string, status: string, observedGeneration = 2) => ({
    type,
    status,
    reason: `${type}Reason`,
    message: "why",
    observedGeneration,
  });
  const judged = (...ancestors: readonly (readonly object[])[]) =>
    fault({ status: { ancestors: ancestors.map((conditions) => ({ conditions })) } }, 2);
  const good = condition("Accepted", "True");
  assert.equal(judged([good]), undefined);
  assert.match(fault({}, 2) ?? "", /has not said yet/);
  assert.match(judged([condition("Accepted", "True", 1)]) ?? "", /has not said yet/);
  assert.match(judged([good], [condition("Accepted", "True", 1)]) ?? "", /has not said yet/);
  assert.equal(
    judged([good], [condition("Accepted", "False")]),
    "Envoy Gateway says AcceptedReason: why",
  );
  assert.match(judged([good, condition("Overridden", "True")]) ?? "", /says OverriddenReason: why/);
  assert.equal(judged([good, condition("Merged", "True")]), undefined);
});

test("defaults that a server adds are no difference", () => {
  const found = { a: [{ b: 1, added: true }], added: {} };
  assert.ok(has(found, { a: [{ b: 1 }] }));
  assert.ok(!has(found, { a: [{ b: 2 }] }));
  assert.ok(!has(found, { a: [{ b: 1 }, { b: 1 }] }));
  assert.ok(!has(found, { missing: 1 }));
  assert.ok(!has(undefined, { a: 1 }));
});
