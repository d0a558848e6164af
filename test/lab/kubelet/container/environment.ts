// The environment of a container, and the references to it in its command.

import type { ContainerSpec, EnvEntry, KeyRef, PodObject } from "../objects.ts";
import type { KnownObjects } from "./known.ts";

export type Environment = Readonly<Record<string, string>>;

/** Facts that are known once a pod has its network. */
export interface PodFacts {
  readonly pod: PodObject;
  readonly podIP: string;
  readonly hostIP: string;
}

/** Variables of `image` come first, then the API server's address, `envFrom` and `env`, as a kubelet orders them. */
export async function environmentOf(
  { env = [], envFrom = [] }: ContainerSpec,
  facts: PodFacts,
  known: KnownObjects,
  first: Environment,
): Promise<Environment> {
  const { namespace } = facts.pod.metadata;
  const found: Record<string, string> = { ...first };
  for (const { prefix = "", configMapRef, secretRef } of envFrom) {
    const kind = configMapRef === undefined ? "Secret" : "ConfigMap";
    const ref = configMapRef ?? secretRef;
    if (ref === undefined) continue;
    const data = await known.dataOf(kind, ref.name, namespace);
    if (data === undefined && ref.optional !== true)
      throw new Error(`${kind} "${ref.name}" not found`);
    for (const [key, value] of Object.entries(data ?? {})) found[prefix + key] = value.toString();
  }
  for (const entry of env) {
    const value = await entryOf(entry, facts, known, found);
    if (value !== undefined) found[entry.name] = value;
  }
  return found;
}

async function entryOf(
  { name, value = "", valueFrom }: EnvEntry,
  facts: PodFacts,
  known: KnownObjects,
  before: Environment,
): Promise<string | undefined> {
  if (valueFrom === undefined) return expanded(value, before);
  const { fieldRef, secretKeyRef, configMapKeyRef } = valueFrom;
  if (fieldRef !== undefined) return fieldOf(fieldRef.fieldPath, facts);
  const key = async (kind: "Secret" | "ConfigMap", ref: KeyRef) => {
    const data = await known.dataOf(kind, ref.name, facts.pod.metadata.namespace);
    const found = data?.[ref.key];
    if (found === undefined && ref.optional !== true)
      throw new Error(`no key ${ref.key} in ${kind} "${ref.name}"`);
    return found?.toString();
  };
  if (secretKeyRef !== undefined) return key("Secret", secretKeyRef);
  if (configMapKeyRef !== undefined) return key("ConfigMap", configMapKeyRef);
  throw new Error(`env ${name}: this kubelet does not know ${Object.keys(valueFrom).join()}`);
}

/** A field of the downward API. */
export function fieldOf(path: string, { pod, podIP, hostIP }: PodFacts): string {
  const { metadata, spec } = pod;
  const map = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path);
  if (map !== null) return metadata[map[1] as "labels" | "annotations"]?.[map[2] ?? ""] ?? "";
  const fields: Readonly<Record<string, () => string>> = {
    "metadata.name": () => metadata.name,
    "metadata.namespace": () => metadata.namespace,
    "metadata.uid": () => metadata.uid,
    "metadata.labels": () => listed(metadata.labels),
    "metadata.annotations": () => listed(metadata.annotations),
    "spec.nodeName": () => spec.nodeName,
    "spec.serviceAccountName": () => spec.serviceAccountName ?? "default",
    "status.podIP": () => podIP,
    "status.podIPs": () => podIP,
    "status.hostIP": () => hostIP,
  };
  const field = fields[path];
  if (field === undefined) throw new Error(`this kubelet does not know the field ${path}`);
  return field();
}

function listed(map: Readonly<Record<string, string>> = {}): string {
  return Object.entries(map)
    .map(([key, value]) => `${key}=${JSON.stringify(value)}\n`)
    .join("");
}

/** Replaces `$(NAME)` by its value; `$$` is a `$`, and names that are not known stay as they are. */
export function expanded(text: string, env: Environment): string {
  return text.replaceAll(/\$\$|\$\(([^)]*)\)/g, (whole, name?: string) =>
    name === undefined ? "$" : (env[name] ?? whole),
  );
}
