// Copies the Secrets that sidecars refer to from the injector's namespace into each labelled one, and keeps the copies in sync.
// A copy contains only the entries that sidecars use, because everyone who may read Secrets of the namespace can read it. An
// unwanted copy stays while a pod of its namespace refers to it, because a restarting container reads it again. Foreign
// Secrets of the same name are not touched. The webhook configuration owns the copies, so the cluster deletes them with it.

import { isDeepStrictEqual } from "node:util";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { fieldOf, type KubeObject, type OwnerReference, textOf } from "#kube/api/objects.ts";
import { type Json, readPod, refersTo } from "../pod.ts";
import type { Namespace, SidecarSecret } from "../settings.ts";
import { optional, SECRETS, type SecretPlace } from "../tls/stores.ts";
import { livingPods } from "./living-pods.ts";

/** Label of a copy; its value is the namespace of the original. */
export const COPY_OF = "sluice/copy-of";

/** Codes of faults that concern every namespace. */
const EVERYWHERE: readonly string[] = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"];

/** Entries that the API server requires in Secrets, by type. */
const REQUIRED_ENTRIES: Readonly<Record<string, readonly string[]>> = {
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson"],
  "kubernetes.io/tls": ["tls.crt", "tls.key"],
};

interface SecretCopiesOptions {
  readonly client: KubeClient;
  readonly home: string;
  /** Namespaces that get copies. */
  readonly namespaces: () => Iterable<Namespace>;
  /** Names of all known namespaces of the cluster. */
  readonly everywhere: () => Iterable<string>;
  /** The owners of copies. Rejects if the owner is gone, because nothing would delete a new copy. */
  readonly owner: (signal: AbortSignal) => Promise<readonly OwnerReference[]>;
  readonly log: Log;
}

export class SecretCopies {
  readonly #options: SecretCopiesOptions;
  /**
   * Names of the Secrets that may have a copy, by namespace. A new namespace may have a copy of each, made by another
   * injector.
   */
  readonly #held = new Map<string, Set<string>>();
  #faults: readonly string[] = [];

  constructor(options: SecretCopiesOptions) {
    this.#options = options;
  }

  /** Reasons why copies are not in sync; empty when all are. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  /**
   * Brings the copies of these Secrets in step, and removes those that nothing needs any more. A fault of one namespace does
   * not keep the others waiting. @throws Fault when the API server does not answer
   */
  async round(secrets: readonly SidecarSecret[], signal: AbortSignal): Promise<void> {
    const { home, namespaces, log } = this.#options;
    const names = secrets.map(({ name }) => name);
    const wanted = [...namespaces()].map(({ name }) => name).filter((name) => name !== home);
    this.#updateNamespaces(names);
    const faults: string[] = [];
    if (secrets.length > 0) await this.#copyAll(secrets, wanted, faults, signal);
    for (const [namespace, held] of this.#held) {
      const kept = wanted.includes(namespace) ? names : [];
      for (const name of [...held].filter((each) => !kept.includes(each))) {
        const fault = await this.#release({ namespace, name }, held, signal);
        if (fault !== undefined) faults.push(fault);
      }
    }
    for (const fault of faults) if (!this.#faults.includes(fault)) log.warn({}, fault);
    this.#faults = faults;
  }

  /** Adds new namespaces and forgets deleted ones. */
  #updateNamespaces(names: readonly string[]): void {
    const { home, everywhere } = this.#options;
    const known = new Set(everywhere());
    known.delete(home);
    for (const name of this.#held.keys()) if (!known.has(name)) this.#held.delete(name);
    for (const name of known) if (!this.#held.has(name)) this.#held.set(name, new Set(names));
  }

  async #copyAll(
    secrets: readonly SidecarSecret[],
    wanted: readonly string[],
    faults: string[],
    signal: AbortSignal,
  ): Promise<void> {
    const { client, home, owner } = this.#options;
    const owners = await owner(signal);
    for (const { name, type, entries } of secrets) {
      const original = await optional(client.get(SECRETS, { namespace: home, name }, signal));
      if (original === undefined) {
        faults.push(`Secret ${home}/${name} does not exist, and sidecars refer to it`);
        continue;
      }
      if (type !== undefined && typeOf(original) !== type) {
        const got = typeOf(original);
        faults.push(
          `Secret ${home}/${name}: wanted the type ${type}, got ${got}; it is not copied`,
        );
        continue;
      }
      const part = partOf(original, entries);
      const missing = entries.filter((entry) => !Object.hasOwn(part.data, entry));
      if (missing.length > 0)
        faults.push(`Secret ${home}/${name} lacks ${missing.join(", ")}, which sidecars use`);
      for (const namespace of wanted) {
        this.#held.get(namespace)?.add(name);
        const fault = await this.#copy(part, { namespace, name }, owners, signal);
        if (fault !== undefined) faults.push(fault);
      }
    }
  }

  /** Returns the reason why the copy is not in sync. */
  async #copy(
    part: SecretPart,
    place: SecretPlace,
    owners: readonly OwnerReference[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, home } = this.#options;
    const { namespace, name } = place;
    const copy = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace, name, labels: { [COPY_OF]: home }, ownerReferences: owners },
      ...part,
    };
    try {
      const found = await optional(client.get(SECRETS, place, signal));
      if (found === undefined) await client.create(SECRETS, copy, signal);
      else if (found.metadata.labels?.[COPY_OF] !== home) {
        return `Secret ${namespace}/${name} is not a copy of ${home}/${name}: sidecars use it as it is`;
      } else if (typeOf(found) !== part.type) {
        // The type of a Secret is immutable. Pods that start in between wait.
        await client.delete(SECRETS, place, signal);
        await client.create(SECRETS, copy, signal);
      } else if (!isInStep(found, part.data, owners)) {
        const metadata = { ...found.metadata, ownerReferences: owners };
        await client.update(SECRETS, { ...found, ...copy, metadata }, undefined, signal);
      }
      return undefined;
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      // Another replica was faster, or the namespace is being deleted.
      if (code === "ABORTED" || code === "ALREADY_EXISTS" || code === "NOT_FOUND") return undefined;
      if (EVERYWHERE.includes(code)) throw thrown;
      return `Secret ${namespace}/${name} is not in step: ${message}`;
    }
  }

  /**
   * Deletes a copy that no pod refers to, and forgets Secrets that are not copies or are gone. Returns the reason why a
   * copy was not deleted.
   */
  async #release(
    place: SecretPlace,
    held: Set<string>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, home, log } = this.#options;
    const { namespace, name } = place;
    try {
      const found = await optional(client.get(SECRETS, place, signal));
      if (found?.metadata.labels?.[COPY_OF] === home) {
        if (await this.#isUsed(place, signal)) return undefined;
        await client.delete(SECRETS, place, signal);
      }
      held.delete(name);
      return undefined;
    } catch (thrown) {
      const { code, message } = Fault.from(thrown);
      if (EVERYWHERE.includes(code)) throw thrown;
      if (code !== "PERMISSION_DENIED")
        return `the copy ${namespace}/${name} was not removed: ${message}`;
      // The chart grants rights only for Secrets that are in use now.
      held.delete(name);
      log.warn(
        { namespace, secret: name },
        `the copy ${namespace}/${name} is no longer kept in step and cannot be removed: ${message}`,
      );
      return undefined;
    }
  }

  async #isUsed({ namespace, name }: SecretPlace, signal: AbortSignal): Promise<boolean> {
    for await (const pod of livingPods(this.#options.client, namespace, signal)) {
      // The API server sends JSON.
      if (refersTo(readPod(pod as unknown as Json), name)) return true;
    }
    return false;
  }
}

/** The part of a Secret that is copied. */
interface SecretPart {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

function partOf(original: KubeObject, entries: readonly string[]): SecretPart {
  const whole = fieldOf(original, "data") ?? {};
  const data = Object.fromEntries(
    Object.entries(whole).filter(([entry]) => entries.includes(entry)),
  );
  const type = typeOf(original);
  const fits = REQUIRED_ENTRIES[type]?.every((entry) => Object.hasOwn(data, entry)) ?? false;
  return { type: fits ? type : "Opaque", data };
}

function typeOf(secret: KubeObject): string {
  return textOf(secret, "type") || "Opaque";
}

function isInStep(found: KubeObject, data: unknown, owners: readonly OwnerReference[]): boolean {
  const owned = fieldOf(found.metadata, "ownerReferences") ?? [];
  return isDeepStrictEqual(fieldOf(found, "data") ?? {}, data) && isDeepStrictEqual(owned, owners);
}
