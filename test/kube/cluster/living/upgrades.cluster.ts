// Sluice gets another version, and goes back to the one before, while users send requests to pods with sidecars: no request
// is lost, and old and new sidecars count together. There is no earlier release yet, so both versions are of this tree, under
// two tags; what an earlier version left in the store is a test of its own (test/sync/versions.test.ts).

import assert from "node:assert/strict";
import { Agent } from "node:http";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import type { KubeClient, KubeObject } from "../../../kit/kube/client.ts";
import { chartPath, helm } from "../../../kit/kube/helm.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import { Load } from "./load.ts";
import { applyPolicy, HOME, inForce, openShop, podsOf, rollOut, startInstalled } from "./shop.ts";

const CAPACITY = 5;
const NEXT = "next";

/** The tags of the Sluice images that these pods run. */
function tagsOf(pods: readonly KubeObject[]): ReadonlySet<string> {
  const images = pods.flatMap(({ spec }) =>
    [...(spec.initContainers ?? []), ...spec.containers].map(({ image }) => String(image)),
  );
  const tags = images.flatMap((image) => /(?:^|\/)sluice:(.*)$/.exec(image)?.[1] ?? []);
  return new Set(tags);
}

async function tagsAtHome(client: KubeClient): Promise<ReadonlySet<string>> {
  const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace: HOME });
  return tagsOf(pods.filter(({ metadata }) => !("deletionTimestamp" in metadata)));
}

await onOwnMachine(import.meta.filename, () => {
  suite("upgrades", async () => {
    const { client, kubeconfig } = await startInstalled(suiteEnding());

    test("an upgrade and a rollback lose no request", async (t) => {
      const shop = await openShop(t, client, 2);
      await applyPolicy(client, CAPACITY);
      for (const pod of await podsOf(client, shop)) await inForce(pod, CAPACITY);
      const before = await tagsAtHome(client);
      assert.equal(before.size, 1);
      const kept = new Agent({ keepAlive: true });
      const loads = [new Load(shop.front), new Load(shop.front, kept)];
      t.after(async () => {
        await Promise.all(loads.map((load) => load.stop()));
        kept.destroy();
      });
      for (const load of loads) load.start();
      const more = () => Promise.all(loads.map((load) => load.more(20)));
      /** Rolls the pods out and looks whether the new ones run this version and are limited. */
      const follow = async (tags: ReadonlySet<string>) => {
        await more();
        assert.deepEqual(await tagsAtHome(client), tags);
        await rollOut(client, shop.deployment, "app=shop");
        await more();
        const pods = await podsOf(client, shop);
        assert.deepEqual(tagsOf(pods.map(({ object }) => object)), tags);
        for (const pod of pods) await inForce(pod, CAPACITY);
      };
      await more();
      const flags = ["--namespace", HOME, "--wait", "--timeout", "5m"];
      const chart = ["upgrade", "sluice", chartPath("sluice"), "--reset-then-reuse-values"];
      const values = { global: { sluice: { image: { tag: NEXT } } } };
      await helm([...chart, ...flags], { values, kubeconfig });
      await follow(new Set([NEXT]));
      await helm(["rollback", "sluice", ...flags], { kubeconfig });
      await follow(before);
      await Promise.all(loads.map((load) => load.stop()));
      const counts = loads.map((load) => load.counts());
      for (const { sent, lost, late } of counts)
        process.stdout.write(`upgrades: ${sent} requests, ${lost.length} lost, ${late} late\n`);
      assert.deepEqual(
        counts.flatMap(({ lost }) => lost),
        [],
      );
      assert.ok(counts.every(({ refused }) => refused > 0));
    });
  });
});
