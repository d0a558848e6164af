// Policies that an object attaches to gateways and routes: what becomes of their selectors, and references that are refused.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { compileSet } from "#policy/set.ts";

const GROUP = "gateway.networking.k8s.io";
const ROUTE = { group: GROUP, kind: "HTTPRoute", name: "checkout" };
const GATEWAY = { group: GROUP, kind: "Gateway", name: "edge", sectionName: "https" };

function compiled(
  targetRefs: unknown,
  selectors: readonly object[] = [{}],
  metadata: object = { name: "p", namespace: "shop" },
  namespace?: string,
) {
  const one = { constant_signal: { value: 1 } };
  const rate_limiter = {
    selectors,
    in_ports: { bucket_capacity: one, fill_amount: one },
    parameters: { interval: "1s" },
  };
  const spec = { targetRefs, circuit: { components: [{ flow_control: { rate_limiter } }] } };
  const head = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
  const text = JSON.stringify({ ...head, metadata, spec });
  const digest = (of: string) => createHash("sha256").update(of).digest("hex");
  const { policies, findings, warnings } = compileSet(
    [{ source: "p.json", defaultName: "p", text, namespace }],
    { digest, queries: "own" },
  );
  const [policy] = policies;
  return {
    findings: findings.map((each) => `${each.path}: wanted ${each.wanted}, got ${each.got}`),
    warnings: warnings.map((each) => `${each.path}: ${each.text}`),
    points: policy?.configs.flatMap(({ message }) =>
      (message["selectors"] as readonly Record<string, string>[]).map((each) => [
        each["control_point"],
        each["service"],
      ]),
    ),
    needs: policy?.needs.flatMap(({ target, path }) => (target ? [{ ...target, path }] : [])),
    controlPoints: policy?.needs.flatMap(({ kind, path }) =>
      kind === "control_point" ? [path] : [],
    ),
  };
}

test("a selector without a control point has that of each target, and keeps the rest", () => {
  const { points, findings, warnings, needs } = compiled(
    [ROUTE, GATEWAY],
    [{ service: "a" }, { control_point: "ingress", service: "b" }],
  );
  assert.deepEqual([findings, warnings], [[], []]);
  assert.deepEqual(points, [
    ["httproute/shop/checkout", "a"],
    ["gateway/shop/edge/https", "a"],
    ["ingress", "b"],
  ]);
  assert.deepEqual(needs, [
    {
      kind: "HTTPRoute",
      namespace: "shop",
      name: "checkout",
      section: undefined,
      controlPoint: "httproute/shop/checkout",
      path: "spec.targetRefs[0]",
    },
    {
      kind: "Gateway",
      namespace: "shop",
      name: "edge",
      section: "https",
      controlPoint: "gateway/shop/edge/https",
      path: "spec.targetRefs[1]",
    },
  ]);
});

test("without targets a selector needs a control point, and null is no target", () => {
  for (const none of [undefined, null]) {
    const { findings } = compiled(none);
    assert.match(findings.join("\n"), /selectors\[0\].*control_point/);
  }
});

test("an object without a namespace is in the default one, as it is for kubectl", () => {
  const { points } = compiled([ROUTE], [{}], { name: "p" });
  assert.deepEqual(points, [["httproute/default/checkout", "any"]]);
});

test("findings and needs name a selector by its place in the text, though it stands for several targets", () => {
  const service = "a.shop.svc.cluster.local";
  const last = (selector: object, namespace?: string) =>
    compiled([ROUTE, GATEWAY], [{ service }, selector], undefined, namespace);
  const second = "spec.circuit.components[0].flow_control.rate_limiter.selectors[1]";
  const pathOf = (findings: readonly string[]) => {
    assert.equal(findings.length, 1, "each fault once");
    return findings[0]?.replace(/:.*/, "");
  };
  const faults = [
    pathOf(last({ servic: "b" }).findings),
    pathOf(last({ control_point: "ingress", servic: "b" }).findings),
    pathOf(last({ control_point: "ingress", service: "b" }, "shop").findings),
  ];
  assert.deepEqual(faults, [`${second}.servic`, `${second}.servic`, `${second}.service`]);
  const paths = last({ control_point: "ingress" }).controlPoints;
  assert.deepEqual(paths?.at(-1), `${second}.control_point`);
});

test("references that could attach to nothing are refused with their place", () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    ["checkout", /targetRefs: wanted a list of references, got "checkout"/],
    [["checkout"], /targetRefs\[0\]: wanted a reference with group, kind and name/],
    [[{ ...ROUTE, kind: "Service" }], /\[0\]\.kind: wanted Gateway or HTTPRoute, got "Service"/],
    [[{ ...ROUTE, group: "" }], /\[0\]\.group: wanted gateway\.networking\.k8s\.io, got ""/],
    [[{ ...ROUTE, name: "Checkout" }], /\[0\]\.name: wanted the name of an object/],
    [[{ ...ROUTE, name: undefined }], /\[0\]\.name: .* got nothing/],
    [[{ ...ROUTE, sectionName: "a/b" }], /\[0\]\.sectionName: wanted the name of a listener/],
    [[{ ...ROUTE, namespace: "b" }], /\[0\]\.namespace: wanted no namespace: .* own namespace/],
    [[{ ...ROUTE, port: 1 }], /\[0\]\.port: wanted one of group, kind, name, sectionName/],
    [[ROUTE, ROUTE], /\[1\]: wanted each target once, got httproute\/shop\/checkout again/],
    [Array(17).fill(ROUTE), /targetRefs: wanted from 1 to 16 references, got 17/],
    [[], /targetRefs: wanted from 1 to 16 references, got an empty list/],
  ];
  for (const [refs, wanted] of cases) {
    const { findings } = compiled(refs);
    assert.equal(findings.length, 1, findings.join("\n"));
    assert.match(findings[0] ?? "", wanted);
  }
});

test("a target that no selector chooses is a warning", () => {
  const { findings, warnings } = compiled([ROUTE], [{ control_point: "ingress" }]);
  assert.deepEqual(findings, []);
  assert.match(warnings.join("\n"), /^spec\.targetRefs\[0\]: every selector names another control/);
  const named = compiled([ROUTE], [{ control_point: "httproute/shop/checkout" }]);
  assert.deepEqual([named.findings, named.warnings], [[], []]);
});
