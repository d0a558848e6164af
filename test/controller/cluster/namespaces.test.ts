// Policies of teams: resources in namespaces beside the controller's own, which is `shop`.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type FakePolicies, fakePolicies, shareOf } from "../../kit/kube/fake-policies.ts";
import { until } from "../../kit/until.ts";
import { running as runningWith } from "./setup.ts";

const serviceIn = (namespace: string) => `web.${namespace}.svc.cluster.local`;

/** A policy for a service of this namespace. */
const of = (namespace: string, percent: number) => shareOf(percent, serviceIn(namespace));

const running = (
  t: TestContext,
  cluster: FakePolicies,
  settings: Readonly<Record<string, string>> = {},
) =>
  runningWith(t, cluster, {
    controller: { SVC_CONTROLLER_POLICIES_NAMESPACES: "pay,stock", ...settings },
  });

function conditionsOf(cluster: FakePolicies, name: string, namespace: string) {
  const all = cluster.status(name, namespace)?.conditions ?? [];
  return Object.fromEntries(all.map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}

const isReady = (cluster: FakePolicies, name: string, namespace: string, ready: string) =>
  until(
    `${namespace}/${name} is ${ready}`,
    () => conditionsOf(cluster, name, namespace)["Ready"] === ready,
  );

test("policies of one name in several namespaces run beside each other, and each has its own status", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("half", shareOf(10));
  cluster.put("half", of("pay", 20), {}, "pay");
  const { json, shares } = await running(t, cluster);
  await shares("half", 10);
  await shares("half@pay", 20);
  cluster.put("half", of("stock", 30), {}, "stock");
  await shares("half@stock", 30);
  for (const namespace of ["shop", "pay", "stock"])
    await isReady(cluster, "half", namespace, "True Running");
  const { body } = await json("/v1/policies");
  assert.deepEqual(Object.keys(body.policies.policies).toSorted(), [
    "half",
    "half@pay",
    "half@stock",
  ]);
  for (const path of ["half@pay", "half%40pay"])
    assert.equal((await json(`/v1/policies/${path}`)).body.status, "VALID");

  // A dynamic configuration and a change reach the one that they name.
  cluster.put("half", of("pay", 25), {}, "pay");
  await shares("half@pay", 25);
  cluster.remove("half", "stock");
  await shares("half@stock", undefined);
  await shares("half", 10);
  await shares("half@pay", 25);
});

test("a policy that reaches beyond its namespace is not run, and says what it may reach", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.put("mine", of("pay", 50), {}, "pay");
  cluster.put("all", shareOf(50), {}, "pay");
  cluster.put("theirs", of("stock", 50), {}, "pay");
  const { shares, share } = await running(t, cluster);
  await shares("mine@pay", 50);
  await isReady(cluster, "all", "pay", "False Invalid");
  await isReady(cluster, "theirs", "pay", "False Invalid");
  const [finding] = cluster.status("theirs", "pay")?.findings ?? [];
  assert.match(finding?.path ?? "", /^spec\.circuit\.components\[0\].*selectors\[0\]\.service$/);
  assert.match(
    finding?.message ?? "",
    /^wanted a service of the namespace pay, such as web\.pay\.svc\.cluster\.local, got "web\.stock\./,
  );
  assert.equal(await share("all@pay"), undefined);
  assert.equal(await share("theirs@pay"), undefined);
  // An edit to one that reaches beyond leaves what runs in force.
  cluster.put("mine", shareOf(60), {}, "pay");
  await isReady(cluster, "mine", "pay", "False LastGoodVersion");
  assert.equal(await share("mine@pay"), 50);
});

test("the youngest policies beyond the quota of a namespace wait for a place, and those of others do not", async (t) => {
  const cluster = await fakePolicies(t);
  for (const name of ["c", "b", "a"]) cluster.put(name, of("pay", 50), {}, "pay");
  cluster.put("a", of("stock", 40), {}, "stock");
  for (const name of ["a", "b", "c"]) cluster.put(name, shareOf(30));
  const { shares, share } = await running(t, cluster, {
    SVC_CONTROLLER_POLICIES_NAMESPACE_QUOTA: "2",
  });
  for (const name of ["c@pay", "b@pay"]) await shares(name, 50);
  await shares("a@stock", 40);
  for (const name of ["a", "b", "c"]) await shares(name, 30);
  await isReady(cluster, "a", "pay", "False OverQuota");
  assert.equal(await share("a@pay"), undefined);
  cluster.remove("c", "pay");
  await shares("a@pay", 50);
  await isReady(cluster, "a", "pay", "True Running");
});

test("a namespace that may not be read holds up no other, and is read when it may be", async (t) => {
  const cluster = await fakePolicies(t);
  cluster.forbidden.add("pay");
  cluster.put("half", of("pay", 20), {}, "pay");
  cluster.put("half", of("stock", 30), {}, "stock");
  const { json, shares } = await running(t, cluster);
  await shares("half@stock", 30);
  const message = async () =>
    JSON.stringify((await json("/v1/status/system/readiness/component/kubernetes")).body);
  await until("it says so", async () => /degraded.*in the namespace pay/.test(await message()));
  cluster.forbidden.delete("pay");
  await shares("half@pay", 20);
  await until("it follows all", async () =>
    /namespaces shop; stock; pay are followed/.test(await message()),
  );
});

test("statuses that cannot be written in one namespace are written in the others", async (t) => {
  const cluster = await fakePolicies(t);
  const { before } = cluster.api;
  cluster.api.before = (asked) => {
    if (asked.method !== "PATCH" || !asked.path.includes("/namespaces/pay/")) return before(asked);
    asked.reply(403, { kind: "Status", reason: "Forbidden", message: "not here" });
    return true;
  };
  cluster.put("half", of("pay", 20), {}, "pay");
  cluster.put("half", of("stock", 30), {}, "stock");
  await running(t, cluster);
  await isReady(cluster, "half", "stock", "True Running");
  assert.equal(cluster.status("half", "pay"), undefined);
});

test("a status that the API server refuses keeps no other from being written, and is tried again", async (t) => {
  const cluster = await fakePolicies(t);
  const { before } = cluster.api;
  let isRefused = true;
  cluster.api.before = (asked) => {
    const isBad = asked.method === "PATCH" && asked.path.includes("/policies/bad/");
    if (!isBad || !isRefused) return before(asked);
    asked.reply(422, { kind: "Status", reason: "Invalid", message: "a webhook refuses it" });
    return true;
  };
  cluster.put("bad", shareOf(10));
  cluster.put("half", shareOf(50));
  await running(t, cluster);
  await isReady(cluster, "half", "shop", "True Running");
  assert.equal(cluster.status("bad", "shop"), undefined);
  isRefused = false;
  await isReady(cluster, "bad", "shop", "True Running");
});
