// Pods that live: the charts install Sluice, its injector adds Envoy and an agent to the pods of a Deployment, and users
// send requests to the Service.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import { onOwnMachine } from "../../../kit/kube/kubelet/node/machine.ts";
import { until } from "../../../kit/until.ts";
import { HOME, openShop, POLICY, policyOf, send, startInstalled } from "./shop.ts";

await onOwnMachine(import.meta.filename, () => {
  suite("pods that live", async () => {
    const ending = suiteEnding();
    const cluster = await startInstalled(ending);
    const { client } = cluster;

    test("a policy of five is enforced for what users send through Envoy", async (t) => {
      const shop = await openShop(t, client, 2);
      await client.apply([policyOf(5)], HOME);
      const ref = { ...POLICY, name: "per-user", namespace: HOME };
      await client.wait(ref, "it runs", ({ status }) => status?.status === "uploaded");
      let users = 0;
      const one = async () => {
        const user = `user-${users++}`;
        const answers = [];
        for (let at = 0; at < 6; at++) answers.push(await send(shop, user));
        return answers;
      };
      let answers = await one();
      await until("the policy is in force", async () => {
        answers = await one();
        return answers.some(({ status }) => status === 429);
      });
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200, 200, 200, 429],
      );
      const pods = new Set(answers.slice(0, 5).map(({ body }) => body));
      assert.equal(pods.size, 2, "both pods have answered, and counted together");
    });
  });
});
