// Releases of the charts in a real cluster: a namespace for one, and Helm's commands for it.

import type { TestContext } from "node:test";
import type { KubeClient } from "../client.ts";
import { type ControlPlane, namespaceOf } from "../control-plane.ts";
import { type Chart, chartPath, helm, type Values } from "../helm.ts";

/** A namespace that takes only restricted pods. */
export async function restrictedNamespace(t: TestContext, client: KubeClient): Promise<string> {
  const namespace = await namespaceOf(t, client);
  const labels = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
  };
  await client.merge(
    { apiVersion: "v1", kind: "Namespace", name: namespace },
    { metadata: { labels } },
  );
  return namespace;
}

export interface Release {
  readonly chart: Chart;
  readonly namespace: string;
  readonly name?: string;
}

export class Releases {
  readonly #kubeconfig: string;

  constructor({ kubeconfig }: Pick<ControlPlane, "kubeconfig">) {
    this.#kubeconfig = kubeconfig;
  }

  /** Waits until everything is ready, and resolves with the notes. */
  run(
    command: "install" | "upgrade",
    { chart, namespace, name = "sluice" }: Release,
    values: Values = {},
  ): Promise<string> {
    const flags = ["--namespace", namespace, "--wait", "--timeout", "5m"];
    return this.#helm([command, name, chartPath(chart), ...flags], values);
  }

  /** Back to the first revision. */
  rollback({ namespace, name = "sluice" }: Release): Promise<string> {
    return this.#helm(["rollback", name, "1", "--namespace", namespace, "--wait"]);
  }

  test({ namespace, name = "sluice" }: Release): Promise<string> {
    return this.#helm(["test", name, "--namespace", namespace]);
  }

  uninstall({ namespace, name = "sluice" }: Release): Promise<string> {
    return this.#helm(["uninstall", name, "--namespace", namespace, "--wait"]);
  }

  #helm(args: readonly string[], values: Values = {}): Promise<string> {
    return helm(args, { values, kubeconfig: this.#kubeconfig });
  }
}

/** The number of pods of a component that run and are not told to end. */
export async function runningPods(
  client: KubeClient,
  namespace: string,
  component: string,
): Promise<number> {
  const selector = `app.kubernetes.io/component=${component}`;
  const pods = await client.list({ apiVersion: "v1", kind: "Pod", namespace }, selector);
  return pods.filter(
    ({ status, metadata }) =>
      status.phase === "Running" && metadata["deletionTimestamp" as never] === undefined,
  ).length;
}

/** Makes the volume that the etcd of a trial asks for, because the clusters of the tests make none by themselves. */
export async function applyVolume(client: KubeClient, name: string): Promise<void> {
  const spec = {
    capacity: { storage: "1Gi" },
    accessModes: ["ReadWriteOnce"],
    persistentVolumeReclaimPolicy: "Retain",
    hostPath: { path: "/nowhere" },
  };
  await client.apply([{ apiVersion: "v1", kind: "PersistentVolume", metadata: { name }, spec }]);
}
