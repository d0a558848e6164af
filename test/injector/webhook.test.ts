// The webhook as the API server calls it: AdmissionReview in, AdmissionReview out, clear errors, and what it counts.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { isObject, type Json, type JsonObject } from "#injector/pod.ts";
import type { Namespace } from "#injector/settings.ts";
import { Webhook } from "#injector/webhook.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { realClock, testPort } from "../kit/sluice/port.ts";
import { applied, assertValid, MODERN, NAMESPACE, podWith, SETTINGS } from "./kit.ts";

type Find = (name: string) => Namespace | Promise<Namespace>;

async function webhookOn(t: TestContext, find: Find = () => NAMESPACE) {
  const log = memoryLog();
  const webhook = new Webhook({
    settings: () => SETTINGS,
    abilities: () => MODERN,
    namespace: find,
    bounds: () => [{ kind: "ResourceQuota", name: "team", hard: { "limits.memory": "1Mi" } }],
    clock: realClock,
    log,
  });
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: false,
  });
  metrics.add(webhook);
  const port = await testPort(t, { routes: [webhook.route] });
  const post = async (body: string | Uint8Array<ArrayBuffer>, type = "application/json") => {
    const reply = await fetch(`http://${port.address}/mutate-pod?timeout=10s`, {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
    return { status: reply.status, json: (await reply.json()) as JsonObject };
  };
  const count = (result: string) => metrics.read("sluice_injector_reviews_total", { result });
  return { post, count, metrics, log };
}

function review(object: Json, request: JsonObject = {}): string {
  return JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      namespace: "shop",
      operation: "CREATE",
      object,
      dryRun: false,
      ...request,
    },
  });
}

function responseOf(json: JsonObject): JsonObject {
  assert.equal(json["apiVersion"], "admission.k8s.io/v1");
  assert.equal(json["kind"], "AdmissionReview");
  assert.ok(isObject(json["response"]));
  assert.equal(json["response"]["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
  return json["response"];
}

test("a review is answered with a patch, and a dry run with the same one", async (t) => {
  const { post, count, metrics } = await webhookOn(t);
  const pod = podWith();
  const { status, json } = await post(review(pod));
  assert.equal(status, 200);
  const response = responseOf(json);
  assert.equal(response["allowed"], true);
  assert.equal(response["patchType"], "JSONPatch");
  assert.match(JSON.stringify(response["warnings"]), /sluice: ResourceQuota team allows 1Mi/);
  const patch = JSON.parse(Buffer.from(String(response["patch"]), "base64").toString("utf8"));
  const whole = applied(pod, patch);
  assert.ok(isObject(whole));
  assertValid(whole);
  const dry = await post(review(pod, { dryRun: true }));
  assert.deepEqual(dry.json, json);
  assert.equal(count("injected"), 2);
  assert.equal(metrics.read("sluice_injector_review_duration_ms"), 2);

  const again = await post(review(whole));
  assert.equal(responseOf(again.json)["patch"], undefined);
  assert.equal(count("unchanged"), 1);
});

test("a pod that is to be left alone is allowed, with warnings where its author should know", async (t) => {
  const { post, count } = await webhookOn(t);
  const left = responseOf((await post(review(podWith({ spec: { hostNetwork: true } })))).json);
  assert.equal(left["allowed"], true);
  assert.match(JSON.stringify(left["warnings"]), /sluice: not injected/);
  assert.equal(left["patch"], undefined);
  assert.equal(count("skipped"), 1);
});

test("a refusal says why", async (t) => {
  const { post, count, log } = await webhookOn(t);
  const pod = podWith({ annotations: { "sluice/port": "0" } });
  const refused = responseOf((await post(review(pod))).json);
  assert.equal(refused["allowed"], false);
  assert.ok(isObject(refused["status"]));
  assert.match(String(refused["status"]["message"]), /sluice\/port: wanted a port/);
  assert.equal(refused["status"]["code"], 422);
  assert.equal(count("refused"), 1);
  assert.ok(
    log.lines.some(({ level, message }) => level === "warn" && /sluice\/port/.test(message)),
  );
});

test("the namespace is that of the request, and its annotations count", async (t) => {
  const asked: string[] = [];
  const { post } = await webhookOn(t, async (name) => {
    asked.push(name);
    return { name, labels: {}, annotations: { "sluice/agent-group": "of-namespace" } };
  });
  const { json } = await post(review(podWith(), { namespace: "other" }));
  const patch = Buffer.from(String(responseOf(json)["patch"]), "base64").toString("utf8");
  assert.match(patch, /"of-namespace"/);
  assert.deepEqual(asked, ["other"]);
});

test("a namespace that could not be read is said to the pod's author, and counted", async (t) => {
  const { post, metrics } = await webhookOn(t, (name) => ({
    name,
    labels: {},
    annotations: {},
    isUnread: true,
  }));
  const unread = () => metrics.read("sluice_injector_unread_namespaces_total");
  assert.equal(unread(), 0);
  const response = responseOf((await post(review(podWith()))).json);
  assert.equal(response["allowed"], true);
  assert.match(
    JSON.stringify(response["warnings"]),
    /namespace shop could not be read: its annotations, such as sluice\/agent-group, are not/,
  );
  assert.equal(unread(), 1);
});

for (const [what, body, message] of [
  ["other text", "x", /wanted an AdmissionReview as JSON, got other text/],
  ["no object", "[]", /body: wanted an object, got a list/],
  [
    "another kind",
    '{"kind":"Pod","apiVersion":"v1"}',
    /wanted an AdmissionReview of admission.k8s.io\/v1, got "Pod" of "v1"/,
  ],
  [
    "an old version",
    '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}',
    /got "AdmissionReview" of "admission.k8s.io\/v1beta1"/,
  ],
  [
    "no request",
    '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
    /request: wanted an object, got nothing/,
  ],
  ["no uid", review(podWith(), { uid: "" }), /request.uid: wanted text/],
  [
    "another operation",
    review(podWith(), { operation: "UPDATE" }),
    /wanted CREATE of Pod, got UPDATE of Pod/,
  ],
  [
    "another resource",
    review(podWith(), { kind: { kind: "Deployment" } }),
    /got CREATE of Deployment/,
  ],
  ["a pod without spec", review({ metadata: {} }), /spec: wanted an object, got nothing/],
] as const) {
  test(`what is no review of a pod is a 400 that says why: ${what}`, async (t) => {
    const { post, count } = await webhookOn(t);
    const { status, json } = await post(body);
    assert.equal(status, 400);
    assert.match(String(json["message"]), message);
    assert.equal(count("invalid"), 1);
  });
}

test("bodies are bounded by 3 MiB and must be JSON", async (t) => {
  const { post } = await webhookOn(t);
  const big = review(podWith({ annotations: { big: "x".repeat(2_900_000) } }));
  assert.equal((await post(big)).status, 200);
  assert.equal((await post("x".repeat(3 * 1024 * 1024 + 1))).status, 413);
  assert.equal((await post(review(podWith()), "text/plain")).status, 415);
});
