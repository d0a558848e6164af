// Looks for what an installation leaves behind, among all kinds of objects that the server has.

import { until } from "../../until.ts";
import type { KubeClient } from "../client.ts";

interface Kind {
  readonly path: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
}

/** Objects that every namespace has. */
const EVERYWHERE: readonly string[] = ["ConfigMap kube-root-ca.crt", "ServiceAccount default"];
const PATIENCE_MS = 120_000;

/** Waits until a namespace is empty, and until the cluster has no object of its own that belongs to Sluice. */
export async function nothingLeft(client: KubeClient, namespace: string): Promise<void> {
  let left: readonly string[] = [];
  const gone = async () => {
    const kinds = await kindsOf(client);
    left = [
      ...(await everythingIn(client, kinds, namespace)),
      ...(await clusterObjects(client, kinds)),
    ];
    return left.length === 0;
  };
  await until("nothing is left", gone, PATIENCE_MS).catch((cause) => {
    throw new Error(`left behind: ${left.join(", ")}`, { cause });
  });
}

/** All kinds of objects that the server has, in their preferred versions. */
async function kindsOf(client: KubeClient): Promise<readonly Kind[]> {
  const { body } = await client.call("GET", "/apis");
  const groups: readonly string[] = body.groups.map(
    (group: { readonly preferredVersion: { readonly groupVersion: string } }) =>
      `/apis/${group.preferredVersion.groupVersion}`,
  );
  const found: Kind[] = [];
  for (const path of ["/api/v1", ...groups]) {
    const { body: list } = await client.call("GET", path);
    for (const { name, kind, namespaced, verbs } of list.resources ?? [])
      if (!name.includes("/") && verbs.includes("list"))
        found.push({ path: `${path}/${name}`, kind, isNamespaced: namespaced });
  }
  return found;
}

/** The objects of a namespace that not every namespace has. */
async function everythingIn(
  client: KubeClient,
  kinds: readonly Kind[],
  namespace: string,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { path, kind, isNamespaced } of kinds) {
    if (!isNamespaced || kind === "Event") continue;
    const at = path.lastIndexOf("/");
    const { body } = await client.call(
      "GET",
      `${path.slice(0, at)}/namespaces/${namespace}${path.slice(at)}`,
    );
    for (const { metadata } of body.items ?? []) found.push(`${kind} ${metadata.name}`);
  }
  return found.filter((each) => !EVERYWHERE.includes(each)).sort();
}

/** Objects of the whole cluster that belong to Sluice. */
async function clusterObjects(
  client: KubeClient,
  kinds: readonly Kind[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { path, kind, isNamespaced } of kinds) {
    if (isNamespaced) continue;
    const { body } = await client.call(
      "GET",
      `${path}?labelSelector=app.kubernetes.io/part-of%3Dsluice`,
    );
    for (const { metadata } of body.items ?? []) found.push(`${kind} ${metadata.name}`);
  }
  return found.sort();
}
