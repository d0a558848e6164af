// The first five minutes of docs/kubernetes.md in a cluster whose pods live: each command up to the sixth request, which is
// refused. `kubectl exec` is done by the kubelet of the tests, and requests go to the Service instead of a forwarded port.

import assert from "node:assert/strict";
import { join } from "node:path";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import { commandsOf, openShell } from "../../../kit/kube/charts/commands.ts";
import { applyVolume } from "../../../kit/kube/charts/releases.ts";
import { until } from "../../../kit/until.ts";
import { startLivingCluster } from "../../../lab/kubelet/cluster.ts";
import { nodeImage } from "../../../lab/kubelet/container/images.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";

const EXEC = /^kubectl --namespace (\S+) exec deployment\/(\S+) -- (.*)$/;

await onOwnMachine(import.meta.filename, () => {
  suite("the first five minutes of the guide", async () => {
    const ending = suiteEnding();
    const application = () => nodeImage(join(import.meta.dirname, "application.ts"));
    const cluster = await startLivingCluster(ending, { agnhost: application });
    const { client, kubeconfig, kubelet } = cluster;
    const shell = openShell(ending, { kubeconfig });
    await applyVolume(client, "trial");

    const all = commandsOf("docs/kubernetes.md");
    const lines = all.slice(
      0,
      all.findIndex((line) => line.includes("NAMESPACE")),
    );

    /** The first pod of a Deployment, in which `kubectl exec` runs a command. */
    const podOf = async (namespace: string, name: string) => {
      const deployment = { apiVersion: "apps/v1", kind: "Deployment", name, namespace };
      const labels: object = (await client.get(deployment))?.["spec"].selector.matchLabels;
      const selector = Object.entries(labels).map((pair) => pair.join("="));
      const pods = await client.list(
        { apiVersion: "v1", kind: "Pod", namespace },
        selector.join(","),
      );
      return { namespace, name: pods[0]?.metadata.name ?? "" };
    };

    /**
     * The requests of a user who has sent none before, until they are answered as the page says: not before the policy is
     * in force, and a check that takes longer than Envoy waits, as on a busy machine, is answered 503.
     */
    const request = async (line: string) => {
      const service = { apiVersion: "v1", kind: "Service", name: "web", namespace: "shop" };
      const { clusterIP } = (await client.get(service))?.["spec"] ?? {};
      let said = "";
      let users = 0;
      const isAsSaid = async () => {
        const own = line.replace("localhost:8080", clusterIP).replace("ann", `user-${users++}`);
        // A Service has its endpoints a moment after its pods are ready.
        said = await shell(own).catch(String);
        return said === "200\n200\n200\n200\n200\n429\n";
      };
      await until("the sixth request is refused", isAsSaid).catch((cause) => {
        throw new Error(said, { cause });
      });
    };

    for (const line of lines)
      test(line, async () => {
        const [, namespace = "", deployment = "", command = ""] = EXEC.exec(line) ?? [];
        if (deployment !== "") {
          const pod = await podOf(namespace, deployment);
          const { code, out, err } = await kubelet.exec(pod, command.split(" "));
          assert.equal(code, 0, err);
          assert.match(out, line.endsWith(" agents") ? /^10\.\S+:14280 .* default /m : /per-user/);
        } else if (line.includes(" curl ")) await request(line);
        else if (!line.includes(" port-forward "))
          await shell(line.replace("REGISTRY", "registry.example.com"));
      });
  });
});
