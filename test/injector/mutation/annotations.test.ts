// Labels and annotations of pods and namespaces: the wishes that injection follows, and those that it refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "#injector/pod.ts";
import type { Namespace } from "#injector/settings.ts";
import {
  application,
  containerOf,
  envOf,
  injected,
  injectInto,
  messageOf,
  NAMESPACE,
  podWith,
} from "../kit.ts";

test("the agent group: of the pod, then of the reference's annotation, then of the namespace, then as configured", () => {
  const namespace: Namespace = {
    ...NAMESPACE,
    annotations: { "sluice/agent-group": "of-namespace" },
  };
  const group = (annotations: Readonly<Record<string, string>>, from = namespace) =>
    envOf(
      containerOf(injected(podWith({ annotations }), { namespace: from }).whole, "sluice-agent"),
    )["SVC_AGENT_AGENT_INFO_AGENT_GROUP"];
  const reference = { "sidecar.fluxninja.com/agent-group": "of-reference" };
  assert.equal(group({ ...reference, "sluice/agent-group": "of-pod" }), "of-pod");
  assert.equal(group(reference), "of-reference");
  assert.equal(group({}), "of-namespace");
  assert.equal(group({}, NAMESPACE), undefined);
});

test("resources as the pod asks; a default that contradicts them gives way", () => {
  const resources = (annotations: Readonly<Record<string, string>>) =>
    containerOf(injected(podWith({ annotations })).whole, "sluice-agent")["resources"];
  assert.deepEqual(resources({ "sluice/resources-memory-request": "1Gi" }), {
    requests: { cpu: "100m", memory: "1Gi" },
  });
  assert.deepEqual(
    resources({ "sluice/resources-memory-limit": "64Mi", "sluice/resources-cpu-limit": "1" }),
    { requests: { cpu: "100m", memory: "64Mi" }, limits: { cpu: "1", memory: "64Mi" } },
  );
});

test("the resources of Envoy have annotations of their own", () => {
  const resources = (annotations: Readonly<Record<string, string>>, name: string) => {
    const pod = podWith({ annotations: { "sluice/envoy-inject": "true", ...annotations } });
    return containerOf(injected(pod).whole, name)["resources"];
  };
  const asked = {
    "sluice/envoy-resources-cpu-request": "1",
    "sluice/envoy-resources-cpu-limit": "2",
    "sluice/envoy-resources-memory-request": "32Mi",
    "sluice/envoy-resources-memory-limit": "64Mi",
  };
  assert.deepEqual(resources(asked, "sluice-envoy"), {
    requests: { cpu: "1", memory: "32Mi" },
    limits: { cpu: "2", memory: "64Mi" },
  });
  assert.deepEqual(resources(asked, "sluice-agent"), resources({}, "sluice-agent"));
  const limit = { "sluice/envoy-resources-memory-limit": "16Mi" };
  assert.match(
    messageOf(injectInto(podWith({ annotations: { ...asked, ...limit } }))),
    /^sluice\/envoy-resources-memory-limit: wanted at least the request, "32Mi", got "16Mi"$/,
  );
});

test("pods that are left alone", () => {
  const reason = (pod: JsonObject, changed = {}) => {
    const found = injectInto(pod, changed);
    return found.outcome === "skipped" ? found.reason : messageOf(found);
  };
  assert.equal(reason(podWith({ annotations: { "sluice/inject": "false" } })), "asked");
  assert.equal(
    reason(podWith({ annotations: { "sidecar.fluxninja.com/injection": "false" } })),
    "asked",
  );
  assert.equal(reason(podWith({ annotations: { "kubernetes.io/config.mirror": "x" } })), "mirror");
  assert.equal(reason(podWith({ spec: { os: { name: "windows" }, containers: [] } })), "windows");
  assert.equal(reason(podWith({ spec: { hostNetwork: true } })), "host_network");
  for (const name of ["kube-system", "kube-public", "kube-node-lease", "sluice"]) {
    assert.equal(reason(podWith(), { namespace: { ...NAMESPACE, name } }), "namespace");
  }
});

test("our annotation wins over that of the reference implementation", () => {
  const annotations = { "sluice/inject": "true", "sidecar.fluxninja.com/injection": "false" };
  assert.equal(injectInto(podWith({ annotations })).outcome, "injected");
});

test("whether to inject may be a label, and false wins over true", () => {
  const outcome = (label: string | undefined, annotation?: string, key = "sluice/inject") => {
    const labels = label === undefined ? {} : { [key]: label };
    const annotations = annotation === undefined ? {} : { [key]: annotation };
    return injectInto(podWith({ labels, annotations })).outcome;
  };
  assert.equal(outcome("false"), "skipped");
  assert.equal(outcome("true"), "injected");
  assert.equal(outcome("false", "true"), "skipped");
  assert.equal(outcome("true", "false"), "skipped");
  assert.equal(outcome("false", undefined, "sidecar.fluxninja.com/injection"), "skipped");
  const ours = { "sluice/inject": "true" };
  const theirs = { "sidecar.fluxninja.com/injection": "false" };
  assert.equal(
    injectInto(podWith({ labels: theirs, annotations: ours })).outcome,
    "injected",
    "our key wins wherever it stands",
  );
  const spec = { hostNetwork: true };
  assert.equal(injectInto(podWith({ labels: ours, spec })).outcome, "refused", "it insists");
  const wrong = injectInto(podWith({ labels: { "sluice/inject": "no" } }));
  assert.match(messageOf(wrong), /^label sluice\/inject: wanted "true" or "false", got "no"$/);
});

test("a label that has no effect is a warning", () => {
  const warnings = (labels: Readonly<Record<string, string>>) =>
    injected(podWith({ labels })).warnings;
  assert.deepEqual(warnings({ app: "shop", "sluice/inject": "true" }), []);
  assert.deepEqual(warnings({ "sluice/port": "8090" }), [
    'label "sluice/port" has no effect; did you mean the annotation sluice/port?',
  ]);
});

test("a pod on the host's network is left alone with a warning, and refused where it insists", () => {
  const spec = { hostNetwork: true, containers: [application()] };
  assert.match(injectInto(podWith({ spec })).warnings[0] ?? "", /network of its node/);
  const insisting = podWith({ spec, annotations: { "sluice/inject": "true" } });
  assert.match(messageOf(injectInto(insisting)), /sluice\/inject: wanted a pod with a network/);
});

for (const [annotation, value, wanted] of [
  ["sluice/inject", "yes", /sluice\/inject: wanted "true" or "false", got "yes"/],
  ["sidecar.fluxninja.com/injection", "0", /injection: wanted "true" or "false", got "0"/],
  ["sluice/agent-group", "a/b", /agent-group: wanted the name of an agent group.*got "a\/b"/],
  ["sluice/agent-group", "$(PASSWORD)", /agent-group: wanted/],
  ["sidecar.fluxninja.com/agent-group", "aperture-cloud", /agent-group: wanted.*aperture-cloud/],
  ["sluice/port", "70000", /sluice\/port: wanted a port from 1 to 65535, got "70000"/],
  ["sluice/resources-cpu-limit", "fast", /cpu-limit: wanted a quantity, such as .*got "fast"/],
  ["sluice/envoy-inject", "1", /envoy-inject: wanted "true" or "false", got "1"/],
  ["sluice/envoy-escaped-slashes", "drop", /slashes: wanted "reject", "keep" or "redirect", got/],
  ["sluice/envoy-idle-timeout", "1d", /idle-timeout: wanted a time such as 90s.*got "1d"/],
  ["sluice/envoy-upgrades", "CONNECT,h2c", /upgrades: wanted "websocket", "CONNECT", .*got "CONN/],
  ["sluice/envoy-body-bytes", "1048577", /body-bytes: wanted a number of bytes from 0 to 1048576/],
] as const) {
  test(`an annotation that cannot be honoured refuses the pod: ${annotation} ${value}`, () => {
    const found = injectInto(podWith({ annotations: { [annotation]: value } }));
    assert.equal(found.outcome, "refused");
    assert.match(messageOf(found), wanted);
  });
}

test("a request above its limit is refused", () => {
  const annotations = {
    "sluice/resources-memory-request": "1Gi",
    "sluice/resources-memory-limit": "512Mi",
  };
  assert.match(
    messageOf(injectInto(podWith({ annotations }))),
    /memory-limit: wanted at least the request, "1Gi", got "512Mi"/,
  );
});

test("a misspelt annotation is a warning with the name that was probably meant", () => {
  const { warnings } = injected(podWith({ annotations: { "sluice/agent-grop": "a" } }));
  assert.match(
    warnings[0] ?? "",
    /"sluice\/agent-grop" is unknown.*did you mean sluice\/agent-group/,
  );
});
