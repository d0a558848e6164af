// An application that listens on 127.0.0.1 only, behind the injected Envoy, is rolled out again and again while users send
// requests, some of them over connections that they keep: the kubelet finds it ready through Envoy, and no request is lost.

import assert from "node:assert/strict";
import { Agent } from "node:http";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import { Load } from "./load.ts";
import { openShop, podsOf, rollOut, startInstalled } from "./shop.ts";

const REPLICAS = 4;
const RESTARTS = 20;

await onOwnMachine(import.meta.filename, () => {
  suite("restarts", async () => {
    const { client } = await startInstalled(suiteEnding());

    test("no request is lost in twenty restarts of pods", async (t) => {
      const shop = await openShop(t, client, REPLICAS, "127.0.0.1");
      const strategy = { rollingUpdate: { maxSurge: 2 } };
      await client.merge(shop.deployment, { spec: { strategy } });
      const kept = new Agent({ keepAlive: true });
      const loads = [new Load(shop.front), new Load(shop.front, kept)];
      t.after(async () => {
        await Promise.all(loads.map((load) => load.stop()));
        kept.destroy();
      });
      for (const load of loads) load.start();
      const pods = new Set<string>();
      const look = async () => {
        for (const { object } of await podsOf(client, shop)) pods.add(object.metadata.uid ?? "");
      };
      await look();
      for (let at = 0; at < RESTARTS / REPLICAS; at++) {
        await rollOut(client, shop.deployment, "app=shop");
        await look();
        await Promise.all(loads.map((load) => load.more(20)));
      }
      await Promise.all(loads.map((load) => load.stop()));
      const counts = loads.map((load) => load.counts());
      for (const { sent, lost, late } of counts)
        process.stdout.write(`restarts: ${sent} requests, ${lost.length} lost, ${late} late\n`);
      assert.deepEqual(
        counts.flatMap(({ lost }) => lost),
        [],
      );
      assert.equal(pods.size, REPLICAS + RESTARTS);
    });
  });
});
