// Pods that are created while no injector answers, or while certificates are replaced.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../../kit/until.ts";
import { client, create, hasAgent, install, PATIENCE_MS, pod } from "./install.ts";

test("while no injector answers pods are created, and reported when it is back", async (t) => {
  const { start, labelled } = await install(t);
  const first = await start();
  await first.serve();
  const namespace = await labelled();
  assert.ok(hasAgent((await create(namespace, pod("before"))).body));
  await first.stop();
  const { status, body } = await create(namespace, pod("missed"));
  assert.equal(status, 201);
  assert.ok(!hasAgent(body));
  const second = await start();
  await second.serve();
  const event = async () =>
    (await client.list({ apiVersion: "v1", kind: "Event", namespace })).find(
      ({ reason }) => reason === "SluiceNotInjected",
    );
  await until("it is reported", async () => (await event()) !== undefined, PATIENCE_MS);
  assert.equal((await event())?.["involvedObject"].name, "missed");
  await until(
    "it is counted",
    async () => /sluice_injector_missed_pods [1-9]/.test(await second.get("/metrics")),
    PATIENCE_MS,
  );
  assert.match(await second.get("/v1/status/system/injector"), new RegExp(`${namespace}/missed`));
  assert.ok(hasAgent((await create(namespace, pod("after"))).body));
});

test("where pods must not start without an agent, none is created while no injector answers", async (t) => {
  const { name, start, labelled } = await install(t);
  const webhooks = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    name,
  };
  const operations = (await client.get(webhooks))?.["webhooks"].map((_: unknown, at: number) => ({
    op: "replace",
    path: `/webhooks/${at}/failurePolicy`,
    value: "Fail",
  }));
  const path = await client.pathOf(webhooks);
  const { status } = await client.call("PATCH", path, operations, "application/json-patch+json");
  assert.equal(status, 200);
  const first = await start();
  await first.serve();
  const namespace = await labelled();
  assert.ok(hasAgent((await create(namespace, pod("before"))).body));
  await first.stop();
  const refused = await create(namespace, pod("refused"));
  assert.equal(refused.status, 500);
  assert.match(refused.body.message, /failed calling webhook/);
  // Pods of namespaces that nobody labelled do not depend on it.
  const elsewhere = await labelled({});
  assert.equal((await create(elsewhere, pod("elsewhere"))).status, 201);
  const second = await start();
  await second.serve();
  assert.ok(hasAgent((await create(namespace, pod("refused"))).body));
});

test("no pod is lost while certificates and authorities are replaced", async (t) => {
  const { home, name, start, labelled } = await install(t);
  const env = {
    SVC_INJECTOR_WEBHOOK_OVERLAP: "2s",
    SVC_INJECTOR_WEBHOOK_CERTIFICATE_LIFETIME: "18s",
    SVC_INJECTOR_WEBHOOK_AUTHORITY_LIFETIME: "36s",
  };
  const replicas = await Promise.all([start(0, env), start(1, env)]);
  for (const { serve } of replicas) await serve();
  const namespace = await labelled();
  const secret = { apiVersion: "v1", kind: "Secret", name: `${name}-tls`, namespace: home };
  const authorities = new Set<string>();
  const certificates = new Set<string>();
  let count = 0;
  const lost: string[] = [];
  await until(
    "authorities were replaced",
    async () => {
      const each = `pod-${count++}`;
      const { status, body } = await create(namespace, pod(each), "?dryRun=All");
      if (status !== 201 || !hasAgent(body)) lost.push(each);
      const data = (await client.get(secret))?.["data"] ?? {};
      authorities.add(data["ca.crt"]);
      certificates.add(data["tls.crt"]);
      return authorities.size >= 3 && data["previous-ca.crt"] === "";
    },
    PATIENCE_MS * 2,
  );
  assert.deepEqual(lost, []);
  assert.ok(certificates.size >= 4, `${certificates.size} certificates`);
  assert.ok(count > 50, `${count} pods`);
});
