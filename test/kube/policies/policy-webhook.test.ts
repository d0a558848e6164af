// The validating webhook: what the API server is told about each review.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Fault } from "#base/fault.ts";
import type { Call, HttpRequest } from "#base/handler.ts";
import { policyWebhook } from "#kube/policies/policy-webhook.ts";
import type { CompiledSet } from "#policy/set.ts";
import { fakeClock } from "../../kit/clock.ts";
import { fakePolicies, shareOf } from "../../kit/kube/fake-policies.ts";
import { standalone } from "../../kit/sluice/standalone.ts";

const RESOURCE = { group: "fluxninja.com", version: "v1alpha1", resource: "policies" };

const NO_REQUEST: Omit<HttpRequest, "body"> = {
  method: "POST",
  path: "/validate/policy",
  query: new URLSearchParams(),
  params: {},
  headers: {},
};

async function webhook(t: TestContext, settings: Readonly<Record<string, string>> = {}) {
  const cluster = await fakePolicies(t);
  const { address } = await standalone(t, {
    policies: {},
    controller: { SVC_CONTROLLER_POLICIES_CR_WATCHER_ENABLED: "true", ...settings },
    variables: cluster.variables,
  });
  const post = (body: unknown, type = "application/json") =>
    fetch(`http://${address}/validate/policy`, {
      method: "POST",
      headers: { "content-type": type },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  /** The answer to a review of this request. */
  const judge = async (request: object) => {
    const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" };
    const full = { uid: "u1", resource: RESOURCE, namespace: "shop", ...request };
    const reply = await post({ ...review, request: full });
    assert.equal(reply.status, 200);
    // biome-ignore lint/suspicious/noExplicitAny: an answer, whose fields a test names
    const { apiVersion, kind, response } = (await reply.json()) as any;
    assert.deepEqual([apiVersion, kind, response.uid], [...Object.values(review), "u1"]);
    return response;
  };
  return { cluster, address, post, judge };
}

function policy(spec: object) {
  const metadata = { name: "half", namespace: "shop" };
  return { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy", metadata, spec };
}

test("a policy without faults is allowed, and one with faults is refused with their paths", async (t) => {
  const { judge } = await webhook(t);
  assert.deepEqual(await judge({ operation: "CREATE", object: policy(shareOf(50)) }), {
    uid: "u1",
    allowed: true,
  });
  const bad = await judge({
    operation: "UPDATE",
    object: policy({ circuit: { components: [{}] } }),
  });
  assert.equal(bad.allowed, false);
  assert.match(bad.status.message, /^half: spec\.circuit\.components\[0\]: wanted /);
  const deleted = await judge({ operation: "DELETE", object: null });
  assert.equal(deleted.allowed, true);
});

test("a policy of a namespace is confined to it, and one of a namespace that is not served is refused", async (t) => {
  const { judge } = await webhook(t, { SVC_CONTROLLER_POLICIES_NAMESPACES: "pay" });
  const own = policy(shareOf(50, "web.pay.svc.cluster.local"));
  const request = { operation: "CREATE", object: own };
  assert.equal((await judge({ ...request, namespace: "pay" })).allowed, true);
  const foreign = await judge({ ...request, namespace: "pay", object: policy(shareOf(50)) });
  assert.equal(foreign.allowed, false);
  assert.match(
    foreign.status.message,
    /^half: spec\..*service: wanted a service of the namespace pay, .*got any, which is every/,
  );
  const elsewhere = await judge({ ...request, namespace: "stock" });
  assert.match(elsewhere.status.message, /wanted shop or pay, whose policies .*, got stock$/);
});

test("what policy check warns of is an admission warning", async (t) => {
  const { judge } = await webhook(t);
  const sampler = {
    in_ports: { accept_percentage: { constant_signal: { value: 50 } } },
    parameters: {
      ramp_mode: false,
      selectors: [{ control_point: "ingress", service: "any", agent_group: "default" }],
      denied_response_status_code: 200,
    },
  };
  const object = policy({
    circuit: { evaluation_interval: "1s", components: [{ flow_control: { sampler } }] },
  });
  const { allowed, warnings } = await judge({ operation: "CREATE", object });
  assert.equal(allowed, true);
  assert.match(warnings[0], /^spec\.circuit\.components\[0\].*denied_response_status_code: /);
});

test("a policy that scales is warned of where the controllers do not scale", async (t) => {
  const selector = { namespace: "shop", api_version: "apps/v1", kind: "Deployment", name: "api" };
  const pod_scaler = {
    in_ports: { replicas: { constant_signal: { value: 3 } } },
    kubernetes_object_selector: { agent_group: "default", ...selector },
  };
  const circuit = { evaluation_interval: "1s", components: [{ auto_scale: { pod_scaler } }] };
  const object = policy({ circuit });
  const review = { operation: "CREATE", object };
  const warned = await (await webhook(t)).judge(review);
  assert.equal(warned.allowed, true);
  assert.equal(warned.warnings.length, 1);
  assert.match(warned.warnings[0], /kubernetes_object_selector: .*auto_scale\.kubernetes\.enabled/);
  const scaling = { SVC_CONTROLLER_AUTO_SCALE_KUBERNETES_ENABLED: "true" };
  assert.equal((await (await webhook(t, scaling)).judge(review)).warnings, undefined);
});

test("another namespace and another kind are refused by name", async (t) => {
  const { judge } = await webhook(t);
  const object = policy(shareOf(50));
  const away = await judge({ operation: "CREATE", object, namespace: "other" });
  assert.match(away.status.message, /metadata\.namespace: wanted shop, .* got other/);
  const resource = { group: "", version: "v1", resource: "pods" };
  const pods = await judge({ operation: "CREATE", object, resource });
  assert.match(pods.status.message, /wanted policies of fluxninja\.com\/v1alpha1, got pods of/);
  assert.deepEqual([away.allowed, pods.allowed], [false, false]);
});

test("what is no review is 400, another type 415, another method 405", async (t) => {
  const { post, address } = await webhook(t);
  for (const body of ["{}", "[", { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" }]) {
    const reply = await post(body);
    assert.equal(reply.status, 400, JSON.stringify(body));
  }
  assert.equal((await post("{}", "text/plain")).status, 415);
  assert.equal((await fetch(`http://${address}/validate/policy`)).status, 405);
});

test("without policy resources there is no such route", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const reply = await fetch(`http://${address}/validate/policy`, { method: "POST", body: "{}" });
  assert.equal(reply.status, 404);
});

test("three policies are judged at a time, each for five seconds", async () => {
  const clock = fakeClock();
  const compiled: ((set: CompiledSet) => void)[] = [];
  const { handle } = policyWebhook({
    compile: () => new Promise((done) => compiled.push(done)),
    namespaces: [],
    namespace: "shop",
    clock,
  });
  const request = { uid: "u", resource: RESOURCE, namespace: "shop", object: policy({}) };
  const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
  const body = Buffer.from(JSON.stringify(review));
  const ask = async () => handle({ ...NO_REQUEST, body }, {} as Call);
  const late = [ask(), ask(), ask()].map((each) =>
    assert.rejects(each, /not compiled within 5000 ms/),
  );
  await assert.rejects(ask(), (fault: Fault) => {
    assert.deepEqual([fault.http, fault.headers], [429, { "retry-after": "1" }]);
    return true;
  });
  clock.advance(5_000);
  await Promise.all(late);
  // A compilation that takes too long still occupies its place.
  await assert.rejects(ask(), /3 policies are being judged already/);
  compiled[0]?.({ policies: [], findings: [], warnings: [] });
  await new Promise(setImmediate);
  const again = ask();
  compiled[3]?.({ policies: [], findings: [], warnings: [] });
  assert.equal((await again).status, 200);
});
