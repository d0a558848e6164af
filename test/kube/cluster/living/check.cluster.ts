// Pods that live: the charts install Sluice, its injector adds Envoy and an agent to the pods of a Deployment, and users
// send requests to the Service.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import type { KubeObject } from "../../../kit/kube/client.ts";
import { helm } from "../../../kit/kube/helm.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import {
  applyPolicy,
  DEPLOYMENT,
  HOME,
  inForce,
  openShop,
  podsOf,
  startInstalled,
} from "./shop.ts";

await onOwnMachine(import.meta.filename, () => {
  suite("pods that live", async () => {
    const { client, kubeconfig } = await startInstalled(suiteEnding());

    test("helm test finds the controller and the injectors ready", async () => {
      const said = await helm(["test", "sluice", "--namespace", HOME, "--timeout", "3m"], {
        kubeconfig,
      });
      assert.match(said, /Phase:\s+Succeeded/);
    });

    test("a policy of five is enforced for what users send through Envoy", async (t) => {
      const shop = await openShop(t, client, 2);
      await applyPolicy(client, 5);
      const answers = await inForce(shop.front, 5);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200, 200, 200, 429],
      );
      const pods = new Set(answers.slice(0, 5).map(({ body }) => body));
      assert.equal(pods.size, 2, "both pods have answered, and counted together");

      await t.test("an edit of the policy reaches every sidecar", async () => {
        for (const requests of [2, 7]) {
          const started = performance.now();
          await applyPolicy(client, requests);
          await Promise.all((await podsOf(client, shop)).map((pod) => inForce(pod, requests)));
          const ms = Math.round(performance.now() - started);
          process.stdout.write(`an edit of the policy was live in every sidecar after ${ms} ms\n`);
        }
      });
    });

    test("where a namespace loses its label, new pods have no sidecar, and old ones go on", async (t) => {
      const shop = await openShop(t, client, 1);
      await applyPolicy(client, 5);
      await inForce(shop.front, 5);
      const [old] = await podsOf(client, shop);
      const { namespace } = shop;
      const label = { "sluice-injection": null };
      await client.merge(
        { apiVersion: "v1", kind: "Namespace", name: namespace },
        { metadata: { labels: label } },
      );
      const labels = { app: "plain" };
      const containers = [{ name: "application", image: "registry.example.com/shop:1" }];
      const plain = {
        ...DEPLOYMENT,
        metadata: { name: "plain" },
        spec: {
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers } },
        },
      };
      await client.apply([plain], namespace);
      const ref = { ...DEPLOYMENT, name: "plain", namespace };
      await client.wait(ref, "the new pod is ready", ({ status }) => status?.readyReplicas === 1);
      const [pod] = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, "app=plain");
      assert.deepEqual(containersOf(pod), ["application"]);

      const [same] = await podsOf(client, shop);
      assert.equal(same?.object.metadata.uid, old?.object.metadata.uid);
      assert.deepEqual(containersOf(same?.object), ["sluice-agent", "sluice-envoy", "application"]);
      assert.deepEqual(restartsOf(same?.object), [0, 0, 0]);
      await inForce(shop.front, 5);
    });
  });
});

/** Names of all containers of a pod, those that start first before the others. */
function containersOf(pod: KubeObject | undefined): readonly string[] {
  const { initContainers = [], containers = [] } = pod?.["spec"] ?? {};
  return [...initContainers, ...containers].map(({ name }: { readonly name: string }) => name);
}

function restartsOf(pod: KubeObject | undefined): readonly number[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod?.["status"] ?? {};
  return [...initContainerStatuses, ...containerStatuses].map(
    ({ restartCount }: { readonly restartCount: number }) => restartCount,
  );
}
