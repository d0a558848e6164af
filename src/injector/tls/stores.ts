// Stores the certificates of the webhook in a Secret and in the webhook configuration.

import { Fault } from "#base/fault.ts";
import type { KubeClient } from "#kube/api/client.ts";
import {
  fieldOf,
  type KubeObject,
  listOf,
  type OwnerReference,
  type Resource,
  textOf,
} from "#kube/api/objects.ts";
import type { MaterialStore, StoredMaterial, TrustStore } from "./keeper.ts";
import type { Material } from "./rotation.ts";

export const SECRETS: Resource = { group: "", version: "v1", plural: "secrets" };
const CONFIGURATIONS: Resource = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "mutatingwebhookconfigurations",
};

/** Entries of the Secret. */
const ENTRIES = {
  authority: "ca.crt",
  authorityKey: "ca.key",
  previous: "previous-ca.crt",
  serving: "tls.crt",
  servingKey: "tls.key",
} as const;

export interface SecretPlace {
  readonly namespace: string;
  readonly name: string;
}

/** The Secret may exist and be empty: the chart that creates it also deletes it. */
export function materialStore(client: KubeClient, place: SecretPlace): MaterialStore {
  return {
    async read(signal) {
      const found = await optional(client.get(SECRETS, place, signal));
      if (found === undefined) return undefined;
      const { resourceVersion = "" } = found.metadata;
      return { material: materialOf(found), resourceVersion };
    },
    async write(material, over, signal) {
      const secret = secretOf(material, place, over);
      if (over === undefined) await client.create(SECRETS, secret, signal);
      else await client.patch(SECRETS, place, { merge: secret }, signal);
    },
  };
}

function materialOf(secret: KubeObject): Material | undefined {
  const data = fieldOf(secret, "data");
  const entry = (name: keyof typeof ENTRIES) =>
    Buffer.from(textOf(data, ENTRIES[name]), "base64").toString("utf8");
  const authority = { cert: entry("authority"), key: entry("authorityKey") };
  const serving = { cert: entry("serving"), key: entry("servingKey") };
  const previous = entry("previous");
  return authority.cert === "" || serving.cert === ""
    ? undefined
    : { authority, previous, serving };
}

function secretOf(
  { authority, previous, serving }: Material,
  place: SecretPlace,
  over: StoredMaterial | undefined,
): KubeObject & { readonly data: object } {
  const data = {
    [ENTRIES.authority]: encoded(authority.cert),
    [ENTRIES.authorityKey]: encoded(authority.key),
    [ENTRIES.previous]: encoded(previous),
    [ENTRIES.serving]: encoded(serving.cert),
    [ENTRIES.servingKey]: encoded(serving.key),
  };
  // The API server refuses a patch of another version with a conflict.
  const metadata = over === undefined ? place : { ...place, resourceVersion: over.resourceVersion };
  return { apiVersion: "v1", kind: "Secret", metadata, data };
}

/** The `caBundle` in every entry of a MutatingWebhookConfiguration. */
export function trustStore(client: KubeClient, name: string): TrustStore {
  const read = async (signal: AbortSignal) => {
    const found = await client.get(CONFIGURATIONS, { name }, signal);
    const { resourceVersion = "" } = found.metadata;
    return { resourceVersion, list: listOf(found, "webhooks") };
  };
  return {
    async trusts(bundle, signal) {
      const found = await optional(read(signal));
      if (found === undefined) return "less";
      const { list } = found;
      const bundles = list.map(bundleIn);
      if (bundles.every((known) => known === bundle)) return "exactly";
      const wanted = certificatesIn(bundle);
      return bundles.every((known) => wanted.every((cert) => certificatesIn(known).includes(cert)))
        ? "more"
        : "less";
    },
    async trust(bundle, signal) {
      const { list, resourceVersion } = await read(signal);
      const caBundle = encoded(bundle);
      const webhooks = list.map((webhook) => ({
        ...(webhook as object),
        clientConfig: { ...(fieldOf(webhook, "clientConfig") as object), caBundle },
      }));
      const merge = { metadata: { resourceVersion }, webhooks };
      await client.patch(CONFIGURATIONS, { name }, { merge }, signal);
    },
  };
}

/**
 * The webhook configuration as an owner: the cluster deletes owned objects with it, for example at an uninstallation. Empty
 * without a name. Rejects with NOT_FOUND if the configuration is gone.
 */
export function webhookOwner(
  client: KubeClient,
  name: string,
): (signal: AbortSignal) => Promise<readonly OwnerReference[]> {
  return async (signal) => {
    if (name === "") return [];
    const { uid = "" } = (await client.get(CONFIGURATIONS, { name }, signal)).metadata;
    const { group, version } = CONFIGURATIONS;
    const kind = "MutatingWebhookConfiguration";
    return [{ apiVersion: `${group}/${version}`, kind, name, uid }];
  };
}

function bundleIn(webhook: unknown): string {
  const bundle = textOf(fieldOf(webhook, "clientConfig"), "caBundle");
  return Buffer.from(bundle, "base64").toString("utf8");
}

function certificatesIn(bundle: string): readonly string[] {
  return bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
}

/** Undefined if the object does not exist. */
export async function optional<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (thrown) {
    if (Fault.from(thrown).code === "NOT_FOUND") return undefined;
    throw thrown;
  }
}

function encoded(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}
