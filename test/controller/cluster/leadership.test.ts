// Controllers over an etcd whose policies are Kubernetes resources: what a new leader makes of what the one before left.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { type FakePolicies, fakePolicies, shareOf } from "../../kit/kube/fake-policies.ts";
import { leads, listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { until } from "../../kit/until.ts";

const CONFIG = "/config/sampler/agent_group-default-policy-half-component_id-root.0";

const FAULTY = { circuit: { components: [{ nothing: {} }] } };

async function setting(t: TestContext, more: Readonly<Record<string, string>> = {}) {
  const cluster = await fakePolicies(t);
  const etcd = await startEtcd(t);
  const start = () =>
    startSluice(
      t,
      "controller",
      etcd.endpoints,
      [],
      { POLICIES_CR_WATCHER_ENABLED: "true", ...more },
      cluster.variables,
    );
  /** Keys of the store that hold the rules of policies. */
  const rules = async () => {
    const keys = await etcd.ctl("get", "--prefix", "aperture/config/sampler/", "--keys-only");
    return keys
      .trim()
      .split("\n")
      .filter((key) => key !== "")
      .map((key) => key.replace(/^aperture/, ""));
  };
  return { cluster, start, rules };
}

async function stop(controller: SluiceChild): Promise<void> {
  controller.kill("SIGTERM");
  await controller.ended;
}

const says = (cluster: FakePolicies, status: string) =>
  until(`it is ${status}`, () => cluster.status("half")?.status === status);

test("a controller does not lead while it cannot read the resources, and their rules stay", async (t) => {
  const { cluster, start, rules } = await setting(t);
  cluster.put("half", shareOf(50));
  const first = start();
  await leads(first);
  assert.deepEqual(await rules(), [CONFIG]);
  await stop(first);
  cluster.api.away = true;
  const second = start();
  await listening(second);
  await second.until("it says why it does not lead", () =>
    /cannot lead, and tries again: policies\.cr_watcher: .*cannot be read/.test(second.printed()),
  );
  assert.deepEqual(await rules(), [CONFIG]);
  cluster.api.away = false;
  await leads(second);
  assert.deepEqual(await rules(), [CONFIG]);
});

test("a resource that turned bad while no controller ran keeps the version that the store has", async (t) => {
  const { cluster, start, rules } = await setting(t);
  cluster.put("half", shareOf(50));
  const first = start();
  await leads(first);
  await says(cluster, "uploaded");
  const good = cluster.status("half")?.hash;
  await stop(first);
  cluster.put("half", FAULTY);
  const second = start();
  await leads(second);
  await says(cluster, "rejected");
  assert.equal(cluster.status("half")?.hash, good);
  assert.deepEqual(await rules(), [CONFIG]);
  cluster.remove("half");
  await until("its rules are gone with it", async () => !(await rules()).includes(CONFIG));
});

test("policies of a namespace that cannot be read stay until it can, whatever the guard is", async (t) => {
  const teams = { POLICIES_NAMESPACES: "pay", POLICIES_REMOVAL_GUARD: "1" };
  const { cluster, start, rules } = await setting(t, teams);
  const half = CONFIG.replace("half", "half@pay");
  const gone = CONFIG.replace("half", "gone@pay");
  const own = shareOf(50, "web.pay.svc.cluster.local");
  cluster.put("half", own, {}, "pay");
  cluster.put("gone", own, {}, "pay");
  const first = start();
  await leads(first);
  assert.deepEqual(await rules(), [gone, half]);
  await stop(first);
  cluster.remove("gone", "pay");
  cluster.put("half", FAULTY, {}, "pay");
  cluster.forbidden.add("pay");
  // Leaders follow each other, and each knows only what the one before left in the store.
  for (const _ of ["second", "third"]) {
    const next = start();
    await leads(next);
    assert.match(next.printed(), /cannot be read: gone@pay; half@pay/);
    assert.deepEqual(await rules(), [gone, half]);
    await stop(next);
  }
  await leads(start());
  cluster.forbidden.delete("pay");
  await until("what is gone goes, and the other one stays", async () => {
    const now = await rules();
    assert.ok(now.includes(half));
    return !now.includes(gone);
  });
  await until("it says what stays", () => {
    const ready = cluster.status("half", "pay")?.conditions.find(({ type }) => type === "Ready");
    return ready?.reason === "LastGoodVersion";
  });
  assert.deepEqual(await rules(), [half]);
});
