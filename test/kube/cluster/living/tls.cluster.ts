// TLS between all parts, in pods that live: an etcd that wants certificates of its clients, agents and controllers that have
// them from Secrets, and controllers that serve with one.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { suiteEnding } from "../../../kit/ending.ts";
import type { KubeClient } from "../../../kit/kube/client.ts";
import { helm } from "../../../kit/kube/helm.ts";
import { authority, type Certificate, temporaryFolder } from "../../../kit/servers/tls.ts";
import { onOwnMachine } from "../../../lab/kubelet/node/machine.ts";
import {
  applyPolicy,
  DEPLOYMENT,
  HOME,
  inForce,
  install,
  openShop,
  startWithShop,
} from "./shop.ts";

const ETCD = "secure-etcd";
const AUTHORITY = "/certificates/ca.crt";

function secret(name: string, { cert, key }: Certificate, ca: Buffer): object {
  const files = { "tls.crt": cert, "tls.key": key, "ca.crt": ca };
  const data = Object.entries(files).map(([file, bytes]) => [file, bytes.toString("base64")]);
  const type = "kubernetes.io/tls";
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name },
    type,
    data: Object.fromEntries(data),
  };
}

/** An etcd that only clients with a certificate can use. */
async function startEtcd(client: KubeClient): Promise<void> {
  const labels = { app: ETCD };
  const container = {
    name: "etcd",
    image: "registry.example.com/etcd:3",
    command: ["/usr/local/bin/etcd"],
    args: [
      "--data-dir=/data/etcd",
      "--listen-client-urls=https://0.0.0.0:2379",
      `--advertise-client-urls=https://${ETCD}.${HOME}.svc:2379`,
      "--cert-file=/certificates/tls.crt",
      "--key-file=/certificates/tls.key",
      `--trusted-ca-file=${AUTHORITY}`,
      "--client-cert-auth",
    ],
    ports: [{ containerPort: 2379 }],
    readinessProbe: { tcpSocket: { port: 2379 }, periodSeconds: 2 },
    volumeMounts: [
      { name: "data", mountPath: "/data" },
      { name: "certificates", mountPath: "/certificates" },
    ],
  };
  const volumes = [
    { name: "data", emptyDir: {} },
    { name: "certificates", secret: { secretName: ETCD } },
  ];
  await client.apply(
    [
      {
        ...DEPLOYMENT,
        metadata: { name: ETCD },
        spec: {
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [container], volumes } },
        },
      },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: ETCD },
        spec: { selector: labels, ports: [{ port: 2379, targetPort: 2379 }] },
      },
    ],
    HOME,
  );
  const ref = { ...DEPLOYMENT, name: ETCD, namespace: HOME };
  await client.wait(ref, "etcd is ready", ({ status }) => status?.readyReplicas === 1);
}

await onOwnMachine(import.meta.filename, () => {
  suite("TLS between all parts", async () => {
    const ending = suiteEnding();
    const { client, kubeconfig } = await startWithShop(ending);
    const ca = authority(temporaryFolder(ending), "sluice");
    const own = (name: string, ...names: readonly string[]) =>
      secret(name, ca.issue(name, 2, names), ca.cert);
    await client.apply([{ apiVersion: "v1", kind: "Namespace", metadata: { name: HOME } }]);
    await client.apply(
      [
        own(ETCD, `${ETCD}.${HOME}.svc`),
        own("agent-etcd"),
        own("controller-etcd"),
        own("controller", `sluice-controller.${HOME}.svc`),
      ],
      HOME,
    );
    await startEtcd(client);
    const etcd = { endpoints: [`https://${ETCD}.${HOME}.svc:2379`] };
    const tls = (process: string) => ({
      etcd: { secretName: `${process}-etcd`, certificate: true },
    });
    await install(kubeconfig, {
      global: { sluice: { etcd: { enabled: false }, prometheus: { enabled: false } } },
      "sluice-agent": {
        agent: { config: { etcd } },
        sidecars: { envoy: { inject: true } },
        tls: tls("agent"),
      },
      "sluice-controller": {
        controller: { config: { etcd } },
        tls: { ...tls("controller"), server: { secretName: "controller" } },
      },
    });

    test("a policy is enforced by sidecars whose certificates come from a copied Secret", async (t) => {
      const shop = await openShop(t, client, 1);
      await applyPolicy(client, 5);
      const answers = await inForce(shop.front, 5);
      assert.equal(answers.filter(({ status }) => status === 200).length, 5);
    });

    test("helm test asks the controller over TLS", async () => {
      const release = ["sluice", "--namespace", HOME];
      // The pod of the test is gone afterwards, so what it asks is read beforehand.
      const hooks = await helm(["get", "hooks", ...release], { kubeconfig });
      assert.match(hooks, /https:\/\/sluice-controller\S*\/v1\/status\/system\/readiness/);
      const said = await helm(["test", ...release, "--timeout", "3m"], { kubeconfig });
      assert.match(said, /Phase:\s+Succeeded/);
    });
  });
});
