// Sluice is removed while users send requests, in the order that docs/kubernetes.md gives: no request is lost.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import { helm } from "../../../kit/kube/helm.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import { Load } from "./load.ts";
import {
  applyPolicy,
  HOME,
  inForce,
  openShop,
  podsOf,
  rollOut,
  send,
  startInstalled,
} from "./shop.ts";

const CAPACITY = 5;
const APPLICATION_PORT = 9_000;

await onOwnMachine(import.meta.filename, () => {
  suite("removal", async () => {
    const { client, kubeconfig } = await startInstalled(suiteEnding());

    test("sidecars and Sluice go away under load", async (t) => {
      const shop = await openShop(t, client, 2);
      const { namespace } = shop;
      await applyPolicy(client, CAPACITY);
      for (const pod of await podsOf(client, shop)) await inForce(pod, CAPACITY);
      const load = new Load(shop.front);
      t.after(() => load.stop());
      load.start();
      await load.more(30);
      const service = { apiVersion: "v1", kind: "Service", name: "shop", namespace };
      const ports = [{ name: "http", port: 80, targetPort: APPLICATION_PORT }];
      await client.merge(service, { spec: { ports } });
      await load.more(30);
      const labels = { "sluice-injection": null };
      await client.merge(
        { apiVersion: "v1", kind: "Namespace", name: namespace },
        { metadata: { labels } },
      );
      await rollOut(client, shop.deployment, "app=shop");
      await load.more(30);
      await helm(["uninstall", "sluice", "--namespace", HOME, "--wait"], { kubeconfig });
      await load.more(30);
      await load.stop();
      const { sent, lost } = load.counts();
      process.stdout.write(`removal: ${sent} requests, ${lost.length} lost\n`);
      assert.deepEqual(lost, []);
      for (const { object } of await podsOf(client, shop)) {
        const { initContainers = [], containers } = object["spec"];
        assert.equal(initContainers.length + containers.length, 1, "the application alone is left");
      }
      for (let at = 0; at <= CAPACITY; at++)
        assert.equal((await send(shop.front, "somebody")).status, 200, "nobody limits any more");
    });
  });
});
