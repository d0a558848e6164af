// A controller that runs policy resources, beside an API server that the test plays.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type FakePolicies, fakePolicies, shareOf } from "../../kit/kube/fake-policies.ts";
import { until } from "../../kit/until.ts";
import { running } from "./setup.ts";

/** Less than the 30 s between two looks at all statuses, so that a source that is not told of a change fails. */
const SOONER_MS = 15_000;

const FAULTY = { circuit: { components: [{ nothing: {} }] } };

function conditionsOf(cluster: FakePolicies, name: string) {
  const all = cluster.status(name)?.conditions ?? [];
  return Object.fromEntries(all.map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}

const says = (cluster: FakePolicies, name: string, status: string, generation: number) =>
  until(`${name} is ${status}`, () => {
    const now = cluster.status(name);
    return now?.status === status && now.observedGeneration === generation;
  });

/** Number of writes that differ from the one before by more than the number of agents. */
function changes({ writes }: FakePolicies): number {
  const texts = writes.map(({ status }) => JSON.stringify({ ...status, agents: null }));
  return texts.filter((text, at) => text !== texts[at - 1]).length;
}

test("a resource runs and says so in one write, is changed, and is gone with its resource", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("half", shareOf(50));
  const { json, shares } = await running(t, cluster);
  await shares("half", 50);
  await says(cluster, "half", "uploaded", 1);
  assert.deepEqual(conditionsOf(cluster, "half"), {
    Valid: "True Compiled",
    Ready: "True Running",
  });
  const { hash } = cluster.status("half") ?? {};
  assert.match(hash ?? "", /^\S{8,}$/);
  const { body } = await json("/v1/policies/half");
  assert.equal(body.status, "VALID");
  assert.equal(changes(cluster), 1);

  cluster.put("half", shareOf(20));
  await shares("half", 20);
  await says(cluster, "half", "uploaded", 2);
  assert.notEqual(cluster.status("half")?.hash, hash);
  assert.equal(changes(cluster), 2);

  cluster.remove("half");
  await shares("half", undefined);
});

test("a resource that turns bad keeps the version that runs, and says both", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("half", shareOf(50));
  const { shares, share, json } = await running(t, cluster);
  await shares("half", 50);
  await says(cluster, "half", "uploaded", 1);
  const good = cluster.status("half");
  cluster.put("half", FAULTY);
  await says(cluster, "half", "rejected", 2);
  const bad = cluster.status("half");
  assert.deepEqual(conditionsOf(cluster, "half"), {
    Valid: "False Invalid",
    Ready: "False LastGoodVersion",
  });
  assert.equal(bad?.hash, good?.hash);
  assert.match(bad?.findings[0]?.path ?? "", /^spec\.circuit\.components\[0\]/);
  assert.match(bad?.conditions[1]?.message ?? "", new RegExp(`\\(${good?.hash}\\) stays in force`));
  assert.equal(await share("half"), 50);
  const { body } = await json("/v1/policies/half");
  assert.equal(body.status, "OUTDATED");
  assert.match(body.reason, /components\[0\]/);
  // A second fault is another generation and another finding, not another transition.
  cluster.put("half", { ...FAULTY, more: 1 });
  await says(cluster, "half", "rejected", 3);
  const still = cluster.status("half");
  assert.equal(still?.conditions[0]?.lastTransitionTime, bad?.conditions[0]?.lastTransitionTime);
  cluster.put("half", shareOf(50));
  await says(cluster, "half", "uploaded", 4);
  assert.deepEqual(cluster.status("half")?.findings, []);
  // Texts are cut, and what the second fault adds to a long one is not seen.
  await until("events tell it", () => cluster.events.length >= 7);
  assert.deepEqual(cluster.events, [
    "half: Normal Compiled",
    "half: Normal Running",
    "half: Warning Invalid",
    "half: Warning LastGoodVersion",
    "half: Warning Invalid",
    "half: Normal Compiled",
    "half: Normal Running",
  ]);
});

test("a resource that is bad from the start runs nothing and does not hold up the others", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("bad", FAULTY);
  cluster.put("half", shareOf(50));
  const { shares } = await running(t, cluster);
  await shares("half", 50);
  await says(cluster, "bad", "rejected", 1);
  assert.deepEqual(conditionsOf(cluster, "bad"), {
    Valid: "False Invalid",
    Ready: "False Invalid",
  });
  assert.equal(cluster.status("bad")?.hash ?? null, null);
});

test("one source owns a name: what loses says who has it, and follows when the name is free", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("half", shareOf(50));
  const file = { "half.yaml": JSON.stringify(shareOf(10)) };
  const { shares, json } = await running(t, cluster, { policies: file });
  await shares("half", 10);
  await until("it says so", () => conditionsOf(cluster, "half")["Ready"] === "False LeftOut");
  const [, ready] = cluster.status("half")?.conditions ?? [];
  assert.match(ready?.message ?? "", /a policy of that name came from a file/);
  cluster.put("other", shareOf(30));
  await shares("other", 30);
  const policy_string = JSON.stringify(shareOf(40));
  const refused = await json("/v1/policies/other", {
    method: "POST",
    body: JSON.stringify({ policy_string }),
  });
  assert.equal(refused.status, 409);
  assert.match(refused.body.message, /Kubernetes resource/);
  const removed = await json("/v1/policies/other", { method: "DELETE" });
  assert.equal(removed.status, 400);
});

/** A policy whose share is a constant that dynamic configuration may replace. */
function configurable(): object {
  const variable = {
    constant_output: { value: 60 },
    config_key: "share",
    out_ports: { output: { signal_name: "S" } },
  };
  const sampler = {
    in_ports: { accept_percentage: { signal_name: "S" } },
    parameters: { selectors: [{ control_point: "ingress", agent_group: "default" }] },
  };
  const components = [{ variable }, { flow_control: { sampler } }];
  return { circuit: { evaluation_interval: "1s", components } };
}

test("the dynamic configuration of a resource is in force", async (t) => {
  const cluster = await fakePolicies(t);
  const spec = configurable();
  cluster.put("half", spec);
  const { shares } = await running(t, cluster);
  await shares("half", 60);
  cluster.put("half", spec, { dynamicConfig: { share: { value: 25 } } });
  await shares("half", 25);
  await until("it says so", () => {
    return conditionsOf(cluster, "half")["DynamicConfigApplied"] === "True Applied";
  });
});

test("a dynamic configuration that is refused, or that another source replaces, keeps a resource from being ready", async (t) => {
  const cluster = await fakePolicies(t);
  const { shares, json } = await running(t, cluster);
  const saysConfig = (ready: string, applied: string) =>
    until(
      `Ready is ${ready}`,
      () => {
        const { Ready, DynamicConfigApplied } = conditionsOf(cluster, "half");
        return Ready === ready && DynamicConfigApplied === applied;
      },
      SOONER_MS,
    );
  cluster.put("half", configurable(), { dynamicConfig: { share: { value: 25 } } });
  await shares("half", 25);
  await saysConfig("True Running", "True Applied");
  cluster.put("half", configurable(), { dynamicConfig: { share: "many" } });
  await saysConfig("False DynamicConfigRefused", "False DynamicConfigRefused");
  const [valid, ready, applied] = cluster.status("half")?.conditions ?? [];
  assert.equal(valid?.status, "True");
  assert.match(ready?.message ?? "", /^dynamicConfig\.share: wanted .*, got "many"/);
  assert.equal(applied?.observedGeneration, 2);
  // The share that was in force stays.
  await shares("half", 25);

  cluster.put("half", configurable(), { dynamicConfig: { share: { value: 30 } } });
  await shares("half", 30);
  await saysConfig("True Running", "True Applied");
  const body = JSON.stringify({ policy_name: "half", dynamic_config: { share: { value: 35 } } });
  const { status } = await json("/v1/dynamic-configs/half", { method: "POST", body });
  assert.equal(status, 200);
  await shares("half", 35);
  await saysConfig("False DynamicConfigOverridden", "False DynamicConfigOverridden");
  await until("events tell it", () => cluster.events.length >= 7);
  assert.deepEqual(cluster.events, [
    "half: Normal Compiled",
    "half: Normal Running",
    "half: Normal Applied",
    "half: Warning DynamicConfigRefused",
    "half: Normal Running",
    "half: Normal Applied",
    "half: Warning DynamicConfigOverridden",
  ]);
});

test("a resource whose objects are not scaled says so with the reason, and is not ready", async (t) => {
  const cluster = await fakePolicies(t);
  const kubernetes_object_selector = {
    namespace: "shop",
    api_version: "apps/v1",
    kind: "Deployment",
    name: "api",
  };
  const replicas = { constant_signal: { value: 3 } };
  const pod_scaler = { in_ports: { replicas }, kubernetes_object_selector };
  const circuit = { evaluation_interval: "1s", components: [{ auto_scale: { pod_scaler } }] };
  cluster.put("more", { circuit });
  await running(t, cluster);
  await until("it says so", () => conditionsOf(cluster, "more")["Scaling"] === "False NotScaled");
  assert.equal(conditionsOf(cluster, "more")["Ready"], "False NotScaled");
  const { conditions = [], warnings, warningCount } = cluster.status("more") ?? {};
  assert.match(conditions[1]?.message ?? "", /only where auto_scale\.kubernetes\.enabled/);
  assert.equal(warningCount, warnings?.length);
});

test("while the API server is away policies go on and the metric says it; then what changed is applied", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("half", shareOf(50));
  const { shares, share, json } = await running(t, cluster);
  await shares("half", 50);
  const dependency = "/v1/status/system/readiness/component/kubernetes";
  const message = async () => JSON.stringify((await json(dependency)).body);
  await until("it follows", async () => /are followed/.test(await message()));
  cluster.api.away = true;
  await until("it is noticed", async () => /degraded/.test(await message()));
  assert.equal(await share("half"), 50);
  cluster.put("half", shareOf(20));
  cluster.api.away = false;
  await shares("half", 20);
  await until("it follows again", async () => /are followed/.test(await message()));
});

test("a status that cannot be written is no reason not to run, and is written later", async (t) => {
  const cluster = await fakePolicies(t);
  const { before } = cluster.api;
  let refused = 0;
  cluster.api.before = (asked) => {
    if (asked.method !== "PATCH" || refused > 0) return before(asked);
    refused += 1;
    asked.reply(500, { message: "not now" });
    return true;
  };
  cluster.put("half", shareOf(50));
  const { shares } = await running(t, cluster);
  await shares("half", 50);
  await says(cluster, "half", "uploaded", 1);
  assert.equal(refused, 1);
});

test("a cluster without the definition of policies is named at the start", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.api.before = ({ reply }) => {
    reply(404, { kind: "Status", reason: "NotFound", message: "the server could not find it" });
    return true;
  };
  await assert.rejects(
    running(t, cluster),
    /policies\.cr_watcher: .*no custom resource definition policies\.fluxninja\.com/,
  );
});
