// Copies of the Secrets that sidecars refer to: from the injector's namespace into each labelled one, kept in step, and removed
// when the namespace loses its label. A Secret of that name that somebody else made is left alone. The webhook configuration
// owns the copies, so that the cluster removes them with it.

import { isDeepStrictEqual } from "node:util";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "../../api/client.ts";
import { fieldOf, type KubeObject, type OwnerReference } from "../../api/objects.ts";
import type { Namespace } from "../settings.ts";
import { optional, SECRETS } from "../tls/stores.ts";

/** Marks a copy; its value is the namespace of the original. */
export const COPY_OF = "sluice/copy-of";

interface SecretCopiesOptions {
  readonly client: KubeClient;
  /** The injector's namespace. */
  readonly home: string;
  readonly namespaces: () => Iterable<Namespace>;
  /** The owners of copies. Rejects where the owner is gone: then nothing would remove a new copy. */
  readonly owner: (signal: AbortSignal) => Promise<readonly OwnerReference[]>;
  readonly log: Log;
}

export class SecretCopies {
  readonly #options: SecretCopiesOptions;
  /** Namespaces that had copies after the last round. */
  #holders: ReadonlySet<string> = new Set();
  #faults: readonly string[] = [];

  constructor(options: SecretCopiesOptions) {
    this.#options = options;
  }

  /** Copies that could not be brought in step, each with the reason; empty when all are. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  /** Brings the copies of these Secrets in step. Throws a Fault when the API server does not answer. */
  async round(names: readonly string[], signal: AbortSignal): Promise<void> {
    const { client, home, namespaces, owner, log } = this.#options;
    if (names.length === 0) {
      this.#faults = [];
      return;
    }
    const owners = await owner(signal);
    const wanted = [...namespaces()].map(({ name }) => name).filter((name) => name !== home);
    const faults: string[] = [];
    for (const name of names) {
      const original = await optional(client.get(SECRETS, { namespace: home, name }, signal));
      if (original === undefined) {
        faults.push(`Secret ${home}/${name} does not exist, and sidecars refer to it`);
        continue;
      }
      for (const namespace of wanted) {
        const fault = await this.#copy(original, namespace, owners, signal);
        if (fault !== undefined) faults.push(fault);
      }
    }
    for (const namespace of this.#holders) {
      if (wanted.includes(namespace)) continue;
      for (const name of names) await this.#remove({ namespace, name }, signal);
    }
    this.#holders = new Set(wanted);
    for (const fault of faults) if (!this.#faults.includes(fault)) log.warn({}, fault);
    this.#faults = faults;
  }

  /** Returns what keeps the copy from being in step. */
  async #copy(
    original: KubeObject,
    namespace: string,
    owners: readonly OwnerReference[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, home } = this.#options;
    const { name } = original.metadata;
    const copy = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace, name, labels: { [COPY_OF]: home }, ownerReferences: owners },
      type: fieldOf(original, "type") ?? "Opaque",
      data: fieldOf(original, "data") ?? {},
    };
    try {
      const found = await optional(client.get(SECRETS, { namespace, name }, signal));
      if (found === undefined) await client.create(SECRETS, copy, signal);
      else if (found.metadata.labels?.[COPY_OF] !== home) {
        return `Secret ${namespace}/${name} is no copy of ${home}/${name}: sidecars use it as it is`;
      } else if (!isInStep(found, copy.data, owners)) {
        const metadata = { ...found.metadata, ownerReferences: owners };
        await client.update(SECRETS, { ...found, ...copy, metadata }, undefined, signal);
      }
      return undefined;
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      // Another replica was faster, or the namespace is going away.
      if (code === "ABORTED" || code === "ALREADY_EXISTS" || code === "NOT_FOUND") return undefined;
      if (code !== "PERMISSION_DENIED") throw thrown;
      return message;
    }
  }

  async #remove(
    place: { readonly namespace: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { client, home } = this.#options;
    const found = await optional(client.get(SECRETS, place, signal));
    if (found?.metadata.labels?.[COPY_OF] === home) await client.delete(SECRETS, place, signal);
  }
}

function isInStep(found: KubeObject, data: unknown, owners: readonly OwnerReference[]): boolean {
  const owned = fieldOf(found.metadata, "ownerReferences") ?? [];
  return isDeepStrictEqual(fieldOf(found, "data") ?? {}, data) && isDeepStrictEqual(owned, owners);
}
