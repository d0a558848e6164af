// Policy resources against a real API server: what it refuses by the schema, and what a controller that has only the
// rights of its chart makes of the others.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse } from "yaml";
import type { Ending } from "../../kit/ending.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { folderOf } from "../../kit/folder.ts";
import type { KubeObject } from "../../kit/kube/client.ts";
import { kubeconfigOf, namespaceOf, sharedCluster } from "../../kit/kube/control-plane.ts";
import { listening, startSluice } from "../../kit/servers/sluice.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { until } from "../../kit/until.ts";

const ROOT = join(import.meta.dirname, "../../..");
const CHART = join(ROOT, "deploy/charts/sluice/charts/sluice-controller");
const POLICY = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy" };
const RIGHTS = parse(readFileSync(join(CHART, "files/policy-rights.yaml"), "utf8"));

const { client } = await sharedCluster({ after });
await client.apply(readFileSync(join(CHART, "crds/policies.fluxninja.com.yaml"), "utf8"));

const sample = (name: string): object =>
  parse(readFileSync(join(ROOT, "deploy/policies", name), "utf8"));

/** A policy that samples by this input, a share of requests by default. */
function sampling(
  name: string,
  share: number | string,
  {
    circuit = {},
    parameters = {},
    input = { constant_signal: { value: share } },
    selector = {},
  }: Readonly<Partial<Record<"circuit" | "parameters" | "input" | "selector", object>>> = {},
): KubeObject {
  const selectors = [{ control_point: "ingress", agent_group: "default", ...selector }];
  const sampler = {
    in_ports: { accept_percentage: input },
    parameters: { selectors, ...parameters },
  };
  return {
    ...POLICY,
    metadata: { name },
    spec: {
      circuit: {
        evaluation_interval: "1s",
        components: [{ flow_control: { sampler } }],
        ...circuit,
      },
    },
  };
}

test("the sample policies are resources", async (t) => {
  const namespace = await namespaceOf(t, client);
  const names = readdirSync(join(ROOT, "deploy/policies"));
  assert.ok(names.length > 0);
  for (const name of names) {
    const document = sample(name) as Readonly<Record<string, unknown>>;
    const spec = document["spec"] ?? document;
    const object = { ...POLICY, metadata: { name: name.replace(/\..*/, "") }, spec };
    const path = await client.pathOf({ ...POLICY, namespace });
    const answer = await client.call("POST", `${path}?fieldValidation=Strict`, object);
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    // Nothing of it was dropped.
    assert.deepEqual(answer.body.spec, spec);
  }
});

test("a wrong key and a wrong type are refused with their path", async (t) => {
  const namespace = await namespaceOf(t, client);
  const path = `${await client.pathOf({ ...POLICY, namespace })}?fieldValidation=Strict`;
  const unknown = await client.call(
    "POST",
    path,
    sampling("a", 50, { circuit: { evaluation_intervall: "1s" } }),
  );
  assert.match(unknown.body.message, /unknown field "spec\.circuit\.evaluation_intervall"/);
  const typed = await client.call("POST", path, sampling("a", "half"));
  assert.match(
    typed.body.message,
    /spec\.circuit\.components\[0\]\..*constant_signal\.value: Invalid/,
  );
  assert.deepEqual([unknown.status, typed.status], [400, 422]);
});

/** A service account with these rules in its namespace and in others, as a client. */
async function accountIn(
  namespace: string,
  name: string,
  rules: readonly object[],
  others: readonly string[] = [],
) {
  const rbac = "rbac.authorization.k8s.io";
  await client.apply([{ apiVersion: "v1", kind: "ServiceAccount", metadata: { name } }], namespace);
  for (const each of [namespace, ...others])
    await client.apply(
      [
        { apiVersion: `${rbac}/v1`, kind: "Role", metadata: { name }, rules },
        {
          apiVersion: `${rbac}/v1`,
          kind: "RoleBinding",
          metadata: { name },
          roleRef: { apiGroup: rbac, kind: "Role", name },
          subjects: [{ kind: "ServiceAccount", name, namespace }],
        },
      ],
      each,
    );
  return client.tokenOf(namespace, name);
}

/** An account of a controller with these rules, as the environment of a process. */
async function accountWith(
  t: Ending,
  namespace: string,
  rules: readonly object[],
  others: readonly string[] = [],
) {
  const token = await accountIn(namespace, "controller", rules, others);
  const config = JSON.parse(kubeconfigOf(client.as(token)));
  config.contexts[0].context.namespace = namespace;
  const file = join(folderOf(t), "kubeconfig");
  writeFileSync(file, JSON.stringify(config));
  return { KUBECONFIG: file };
}

const WATCHING = { POLICIES_CR_WATCHER_ENABLED: "true" };

test("a controller with exactly the rights of its chart runs the resources of its namespace", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, RIGHTS);
  const start = () => startSluice(t, "controller", endpoints, [], WATCHING, account);
  const first = start();
  await listening(first);
  const ref = { ...POLICY, name: "half", namespace };
  await client.apply([sampling("half", 50)], namespace);
  const good = await client.wait(ref, "it runs", ({ status }) => status?.status === "uploaded");
  assert.equal(good["status"].observedGeneration, good.metadata.generation);
  assert.deepEqual(conditionsOf(good), { Valid: "True Compiled", Ready: "True Running" });
  await until("events say so", async () => {
    const events = await client.list({ apiVersion: "events.k8s.io/v1", kind: "Event", namespace });
    const texts = events.map(({ reason, regarding }) => [reason, regarding.uid].join(" "));
    return ["Compiled", "Running"].every((each) =>
      texts.includes(`${each} ${good.metadata["uid"]}`),
    );
  });
  const decisions = async (of: typeof first) => {
    const reply = await fetch(`http://${of.address()}/v1/decisions/sampler`);
    return JSON.stringify(await reply.json());
  };
  await until("its decision is made", async () =>
    /acceptPercentage\W+50\b/.test(await decisions(first)),
  );

  // Rules between fields are for the compiler, which names the path; what runs goes on.
  await client.merge(ref, { spec: { circuit: { components: [{ nested_circuit: null }] } } });
  const bad = await client.wait(ref, "it is rejected", ({ status }) => {
    return status?.status === "rejected";
  });
  assert.deepEqual(conditionsOf(bad), { Valid: "False Invalid", Ready: "False LastGoodVersion" });
  assert.equal(bad["status"].hash, good["status"].hash);
  assert.match(bad["status"].findings[0].path, /^spec\.circuit\.components\[0\]/);
  assert.match(await decisions(first), /acceptPercentage\W+50\b/);

  // The version that an earlier leader left in the store outlives a restart.
  first.kill("SIGTERM");
  await first.ended;
  const second = start();
  await listening(second);
  await until("it runs again", async () => /acceptPercentage\W+50\b/.test(await decisions(second)));
  assert.equal((await client.get(ref))?.["status"].hash, good["status"].hash);

  await client.apply([sampling("half", 20)], namespace);
  await client.wait(ref, "it runs anew", ({ status: now }) => now?.status === "uploaded");
  await until("the new share is in force", async () =>
    /acceptPercentage\W+20\b/.test(await decisions(second)),
  );
  await client.delete(ref);
  await until("it is gone", async () => !/half/.test(await decisions(second)));
});

/** Has the API server ask a controller about the policies of these namespaces. */
async function askWebhook(
  t: Ending,
  address: string,
  authority: Buffer,
  namespaces: readonly string[],
): Promise<void> {
  const rule = {
    apiGroups: ["fluxninja.com"],
    apiVersions: ["v1alpha1"],
    operations: ["CREATE", "UPDATE"],
    resources: ["policies"],
  };
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: `policies-${namespaces[0]}` },
  };
  const inThem = {
    key: "kubernetes.io/metadata.name",
    operator: "In",
    values: namespaces,
  };
  await client.apply([
    {
      ...configuration,
      webhooks: [
        {
          name: "policy-validator.fluxninja.com",
          clientConfig: {
            url: `https://${address}/validate/policy`,
            caBundle: authority.toString("base64"),
          },
          rules: [rule],
          namespaceSelector: { matchExpressions: [inThem] },
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
          failurePolicy: "Fail",
        },
      ],
    },
  ]);
  const { name } = configuration.metadata;
  t.after(() => client.delete({ ...configuration, name }));
}

test("the API server asks the webhook, and passes its reasons and warnings on", async (t) => {
  const namespace = await namespaceOf(t, client);
  const { endpoints } = await startEtcd(t);
  const account = await accountWith(t, namespace, RIGHTS);
  const ca = authority(temporaryFolder(t), "ca");
  const own = ca.issue("webhook");
  const controller = startSluice(
    t,
    "controller",
    endpoints,
    [],
    {
      ...WATCHING,
      SERVER_TLS_ENABLED: "true",
      SERVER_TLS_CERT_FILE: own.certFile,
      SERVER_TLS_KEY_FILE: own.keyFile,
    },
    account,
  );
  await listening(controller);
  await askWebhook(t, controller.address(), ca.cert, [namespace]);
  const path = await client.pathOf({ ...POLICY, namespace });
  const post = (object: object) => client.call("POST", path, object);
  // The schema has nothing against it.
  const wrong = sampling("wrong", 50, { input: { signal_name: "NOWHERE" } });
  // The configuration takes effect a moment after it was stored, and what came before is removed again.
  let refused = await post(wrong);
  await until("the webhook is asked", async () => {
    if (refused.status === 201) {
      await client.delete({ ...POLICY, name: "wrong", namespace });
      refused = await post(wrong);
    }
    return refused.status !== 201;
  });
  assert.match(
    refused.body.message,
    /policy-validator\.fluxninja\.com" denied the request: wrong: spec\.circuit.*NOWHERE/,
  );
  const odd = sampling("odd", 50, { parameters: { denied_response_status_code: "OK" } });
  const allowed = await post(odd);
  assert.equal(allowed.status, 201, JSON.stringify(allowed.body));
  assert.match(allowed.warnings[0] ?? "", /denied_response_status_code: /);
});

test("teams own their policies: each its names, its services and its share of places", async (t) => {
  const [own, pay, stock, other] = await Promise.all(
    [1, 2, 3, 4].map(() => namespaceOf(t, client)),
  );
  assert.ok(own && pay && stock && other);
  const { endpoints } = await startEtcd(t);
  const ca = authority(temporaryFolder(t), "ca");
  const tls = ca.issue("webhook");
  const account = await accountWith(t, own, RIGHTS, [pay, stock]);
  const settings = {
    ...WATCHING,
    POLICIES_NAMESPACES: `${pay},${stock}`,
    POLICIES_NAMESPACE_QUOTA: "2",
    SERVER_TLS_ENABLED: "true",
    SERVER_TLS_CERT_FILE: tls.certFile,
    SERVER_TLS_KEY_FILE: tls.keyFile,
  };
  const controller = startSluice(t, "controller", endpoints, [], settings, account);
  await listening(controller);

  // The controllers have no rights elsewhere, and a team has none outside of its own namespace.
  const pathIn = (namespace: string) => client.pathOf({ ...POLICY, namespace });
  const controllers = client.as(await client.tokenOf(own, "controller"));
  assert.equal((await controllers.call("GET", await pathIn(pay))).status, 200);
  assert.equal((await controllers.call("GET", await pathIn(other))).status, 403);
  const verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
  const rules = [{ apiGroups: ["fluxninja.com"], resources: ["policies"], verbs }];
  const team = client.as(await accountIn(pay, "team", rules));
  const serviceIn = (namespace: string) => ({
    selector: { service: `web.${namespace}.svc.cluster.local` },
  });
  const post = async (namespace: string, object: object) =>
    team.call("POST", await pathIn(namespace), object);
  assert.equal((await post(pay, sampling("half", 20, serviceIn(pay)))).status, 201);
  for (const namespace of [own, stock, other]) {
    assert.equal((await post(namespace, sampling("half", 20))).status, 403, namespace);
    assert.equal((await team.call("GET", await pathIn(namespace))).status, 403, namespace);
  }

  // Policies of one name are all in force.
  await client.apply([sampling("half", 10)], own);
  await client.apply([sampling("half", 30, serviceIn(stock))], stock);
  const waits = (name: string, namespace: string, reason: string) =>
    client.wait({ ...POLICY, name, namespace }, `${namespace}/${name} is ${reason}`, (object) =>
      (conditionsOf(object)["Ready"] ?? "").endsWith(` ${reason}`),
    );
  for (const namespace of [own, pay, stock]) await waits("half", namespace, "Running");

  // Without the webhook, the controller itself refuses what reaches beyond, and what is beyond the quota.
  const foreign = sampling("foreign", 20, serviceIn(stock));
  assert.equal((await post(pay, foreign)).status, 201);
  const refused = await waits("foreign", pay, "Invalid");
  assert.match(
    refused["status"].findings[0].message,
    new RegExp(`^wanted a service of the namespace ${pay}, .*, got "web\\.${stock}\\.svc`),
  );
  // Names decide which of one second is older.
  assert.equal((await post(pay, sampling("more", 20, serviceIn(pay)))).status, 201);
  const over = await waits("more", pay, "OverQuota");
  assert.equal(conditionsOf(over)["Valid"], "Unknown OverQuota");
  const refOf = (name: string) => ({ ...POLICY, name, namespace: pay });
  await client.delete(refOf("foreign"));
  await waits("more", pay, "Running");

  // With a ResourceQuota as the chart makes it, the API server refuses what is beyond.
  const limits = { apiVersion: "v1", kind: "ResourceQuota", name: "policies", namespace: pay };
  const counted = { "count/policies.fluxninja.com": "2" };
  let changes = 100;
  await until(
    "it counts",
    async () => {
      // The controller manager hears of new definitions now and then, and counts them in quotas that change afterwards.
      changes += 1;
      const hard = { ...counted, "count/configmaps": String(changes) };
      const { apiVersion, kind, name } = limits;
      await client.apply([{ apiVersion, kind, metadata: { name }, spec: { hard } }], pay);
      const used = (await client.get(limits))?.["status"]?.used ?? {};
      return used["count/policies.fluxninja.com"] === "2";
    },
    120_000,
  );
  const third = await post(pay, sampling("third", 20, serviceIn(pay)));
  assert.equal(third.status, 403);
  assert.match(third.body.message, /exceeded quota: policies/);
  await client.delete(limits);

  // With the webhook, the API server refuses what reaches beyond.
  await askWebhook(t, controller.address(), ca.cert, [own, pay, stock]);
  let denied = await post(pay, foreign);
  await until("the webhook is asked", async () => {
    if (denied.status === 201) {
      await client.delete(refOf("foreign"));
      denied = await post(pay, foreign);
    }
    return denied.status !== 201;
  });
  assert.match(
    denied.body.message,
    new RegExp(`denied the request: foreign: .*wanted a service of the namespace ${pay}, such as`),
  );
});

test("kubectl get policies shows whether each is valid and in force", async (t) => {
  const namespace = await namespaceOf(t, client);
  const path = await client.pathOf({ ...POLICY, namespace });
  await client.apply([sampling("half", 50)], namespace);
  const condition = {
    status: "True",
    reason: "Running",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const status = {
    status: "uploaded",
    conditions: [
      { ...condition, type: "Valid" },
      { ...condition, type: "Ready" },
    ],
    agents: { wanted: 3, applied: 2, summary: "2/3" },
  };
  await client.merge({ ...POLICY, name: "half", namespace }, { status }, "status");
  const table = "application/json;as=Table;v=v1;g=meta.k8s.io";
  const { body } = await client.call("GET", path, undefined, "", table);
  const names = body.columnDefinitions.map((each: { name: string }) => each.name);
  const cells: Readonly<Record<string, string>> = Object.fromEntries(
    names.map((column: string, at: number) => [column, body.rows[0].cells[at]]),
  );
  const { Name, Status, Valid, Ready, Agents } = cells;
  assert.deepEqual(
    [Name, Status, Valid, Ready, Agents],
    ["half", "uploaded", "True", "True", "2/3"],
  );
});

for (const rule of RIGHTS as readonly { resources: string[]; verbs: string[] }[]) {
  for (const verb of rule.verbs) {
    test(`without the right to ${verb} ${rule.resources[0]} it says so`, async (t) => {
      const namespace = await namespaceOf(t, client);
      const { endpoints } = await startEtcd(t);
      const fewer = (RIGHTS as readonly (typeof rule)[])
        .map((each) =>
          each === rule ? { ...each, verbs: each.verbs.filter((other) => other !== verb) } : each,
        )
        .filter(({ verbs }) => verbs.length > 0);
      const account = await accountWith(t, namespace, fewer);
      const controller = startSluice(t, "controller", endpoints, [], WATCHING, account);
      await client.apply([sampling("half", 50)], namespace);
      await controller.until("it names what it may not do", () =>
        /status 403: .*is forbidden.*cannot (list|watch|patch|create) resource/.test(
          controller.printed(),
        ),
      );
    });
  }
}

function conditionsOf(object: KubeObject) {
  const all: readonly Condition[] = object["status"]?.conditions ?? [];
  return Object.fromEntries(all.map((each) => [each.type, `${each.status} ${each.reason}`]));
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}
