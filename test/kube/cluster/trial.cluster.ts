// The chart for trials in a real cluster: installed with its default values, compared, upgraded, rolled back, tested and
// removed. Pods are objects that kwok calls running; the namespace enforces the Pod Security level "restricted". The control
// plane is this file's own, because it looks at all that an installation leaves behind, and because its webhook has no
// injector.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nothingLeft } from "../../kit/kube/charts/leftovers.ts";
import {
  applyVolume,
  Releases,
  restrictedNamespace,
  runningPods,
} from "../../kit/kube/charts/releases.ts";
import type { KubeObject } from "../../kit/kube/client.ts";
import { startControlPlane } from "../../kit/kube/control-plane.ts";
import { objectsOf, rendered } from "../../kit/kube/helm.ts";

/** The node that docs/kubernetes.md promises is enough. */
const plane = await startControlPlane({ after }, { capacity: { cpu: "2", memory: "4Gi" } });
const { client } = plane;
const releases = new Releases(plane);

const DEFINITION = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" };

/** The changes that applying the manifests again would make, as a GitOps tool finds them. */
async function drift(namespace: string): Promise<readonly string[]> {
  const text = await rendered("sluice", {}, ["--namespace", namespace, "--no-hooks"]);
  const changed: string[] = [];
  for (const wanted of objectsOf(text)) {
    const path = await client.pathOf({ ...wanted, ...wanted.metadata });
    const before = (await client.call("GET", path)).body;
    const query = "?dryRun=All&fieldManager=gitops&force=true";
    const { status, body } = await client.call(
      "PATCH",
      path + query,
      wanted,
      "application/apply-patch+yaml",
    );
    assert.equal(status, 200, `${path}: ${body.message}`);
    if (JSON.stringify(facts(before)) !== JSON.stringify(facts(body))) changed.push(path);
  }
  return changed;
}

function facts({ metadata, status: _, ...rest }: KubeObject): object {
  const { name, labels } = metadata;
  return { name, labels: Object.entries(labels ?? {}).sort(), rest };
}

test("a trial is installed, upgraded, rolled back and removed", async (t) => {
  const namespace = await restrictedNamespace(t, client);
  await applyVolume(client, "trial");
  const release = { chart: "sluice", namespace } as const;
  const notes = await releases.run("install", release);
  for (const component of ["controller", "etcd", "prometheus"])
    assert.equal(await runningPods(client, namespace, component), 1, component);
  assert.equal(await runningPods(client, namespace, "injector"), 2);

  await t.test("its notes name objects that exist", async () => {
    const named = [
      ...notes.matchAll(
        /--namespace (\S+) (?:rollout status|exec(?: -i)?|port-forward) (\w+)\/([\w-]+)/g,
      ),
    ];
    assert.ok(named.length >= 4, notes);
    for (const [, where, kind = "", name = ""] of named) {
      assert.equal(where, namespace);
      const ref =
        kind === "service"
          ? { apiVersion: "v1", kind: "Service" }
          : { apiVersion: "apps/v1", kind: "Deployment" };
      assert.ok(await client.get({ ...ref, name, namespace }), `${kind}/${name}`);
    }
  });

  const webhook = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    name: "sluice-injector",
  };
  const secret = { apiVersion: "v1", kind: "Secret", name: "sluice-injector-tls", namespace };
  const owned = async () => {
    const { webhooks } = (await client.get(webhook)) as KubeObject;
    const { data } = (await client.get(secret)) as KubeObject;
    return [
      ...webhooks.map(({ clientConfig }: KubeObject) => clientConfig["caBundle"]),
      data?.["ca.crt"],
    ];
  };
  const authority = btoa(client.ca);
  const operations = [0, 1, 2].map((at) => ({
    op: "add",
    path: `/webhooks/${at}/clientConfig/caBundle`,
    value: authority,
  }));
  const patched = await client.call(
    "PATCH",
    await client.pathOf(webhook),
    operations,
    "application/json-patch+json",
  );
  assert.equal(patched.status, 200, JSON.stringify(patched.body));
  await client.merge(secret, { data: { "ca.crt": authority } });

  await t.test("applying it again changes nothing, certificates included", async () => {
    assert.deepEqual(await drift(namespace), []);
  });

  const policy = { apiVersion: "fluxninja.com/v1alpha1", kind: "Policy", name: "kept", namespace };
  const { apiVersion, kind, name } = policy;
  await client.apply([{ apiVersion, kind, metadata: { name }, spec: { circuit: {} } }], namespace);
  const uid = (await client.get(policy))?.metadata.uid;

  await t.test("an upgrade and a rollback keep policies and what the injector wrote", async () => {
    const more = {
      "sluice-controller": { controller: { replicaCount: 3, config: { log: { level: "debug" } } } },
    };
    await releases.run("upgrade", release, more);
    assert.equal(await runningPods(client, namespace, "controller"), 3);
    assert.deepEqual(await owned(), [authority, authority, authority, authority]);
    await releases.rollback(release);
    const deployment = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name: "sluice-controller",
      namespace,
    };
    await client.wait(
      deployment,
      "one controller",
      ({ spec, status }) => spec.replicas === 1 && status.replicas === 1,
    );
    assert.deepEqual(await owned(), [authority, authority, authority, authority]);
    assert.equal((await client.get(policy))?.metadata.uid, uid);
  });

  await t.test("helm test starts pods that the cluster takes", async () => {
    // No container runs here, so the test says itself that the pods have succeeded.
    const tests = releases.test(release);
    const pod = { apiVersion: "v1", kind: "Pod", name: "sluice-controller-test", namespace };
    await client.wait(pod, "the pod of the test", ({ spec }) => spec.nodeName !== undefined);
    await client.merge(pod, { status: { phase: "Succeeded" } }, "status");
    assert.match(await tests, /Phase:\s+Succeeded/);
  });

  const policies = { ...DEFINITION, name: "policies.fluxninja.com" };
  assert.ok(await client.get(policies), "the definition of policies is installed");
  await releases.uninstall(release);
  assert.ok(await client.get(policies), "and survives");
  assert.equal((await client.get(policy))?.metadata.uid, uid, "with the policies");
  await client.delete(policy);
  await nothingLeft(client, namespace);
});
