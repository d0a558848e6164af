// Follows the namespaces of the cluster, whose labels and annotations injection needs. A namespace that the watch has not
// reported yet is read on demand.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import type { KubeObject, Resource } from "#kube/api/objects.ts";
import { type Changes, Reflector } from "#kube/api/reflector.ts";
import { isEnabled } from "../mutation/annotations.ts";
import { SYSTEM_NAMESPACES } from "../mutation/mutate.ts";
import type { Namespace } from "../settings.ts";

const NAMESPACES: Resource = { group: "", version: "v1", plural: "namespaces" };

export interface NamespacesOptions {
  readonly client: KubeClient;
  /** Namespaces that are not injected, besides those of Kubernetes. */
  readonly ignored: readonly string[];
  /** Called with undefined when the namespaces are followed, and with a fault when they may be out of date. */
  readonly followed: (fault: Fault | undefined) => void;
  /** Called after the first list, and when the set of enabled namespaces changes. */
  readonly changed: () => void;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

export class Namespaces {
  readonly #options: NamespacesOptions;
  readonly #reflector: Reflector<Namespace>;
  readonly #enabled = new Set<string>();
  #isKnown = false;

  constructor(options: NamespacesOptions) {
    const { client, clock, chance, followed } = options;
    this.#options = options;
    this.#reflector = new Reflector<Namespace>({
      client,
      clock,
      chance,
      resource: NAMESPACES,
      keep: namespaceOf,
      changed: (changes) => this.#compare(changes),
      followed: (following) => followed(following.state === "away" ? following.fault : undefined),
    });
  }

  /** Retries while the API server is away. */
  follow(): void {
    this.#reflector.follow();
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }

  /** Never rejects: if the API server does not answer, the namespace has no labels and annotations. */
  find(name: string, signal: () => AbortSignal): Namespace | Promise<Namespace> {
    return this.#reflector.get(name) ?? this.#read(name, signal());
  }

  /** True if the namespaces have been listed. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  *names(): Generator<string> {
    for (const [name] of this.#reflector.entries()) yield name;
  }

  *enabled(): Generator<Namespace> {
    for (const name of this.#enabled) {
      const namespace = this.#reflector.get(name);
      if (namespace !== undefined) yield namespace;
    }
  }

  #compare({ puts, deletes }: Changes<Namespace>): void {
    const before = [...this.#enabled].sort().join();
    const isFirst = !this.#isKnown;
    this.#isKnown = true;
    const left = [...SYSTEM_NAMESPACES, ...this.#options.ignored];
    for (const [name, { labels, isEnding = false }] of puts) {
      if (!left.includes(name) && isEnabled(labels) && !isEnding) this.#enabled.add(name);
      else this.#enabled.delete(name);
    }
    for (const name of deletes) this.#enabled.delete(name);
    if (isFirst || [...this.#enabled].sort().join() !== before) this.#options.changed();
  }

  async #read(name: string, signal: AbortSignal): Promise<Namespace> {
    const { client, log } = this.#options;
    try {
      return namespaceOf(await client.get(NAMESPACES, { name }, signal));
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      log.warn({ namespace: name }, `annotations of a namespace are not known: ${message}`);
      return { name, labels: {}, annotations: {}, isUnread: true };
    }
  }
}

function namespaceOf({ metadata }: KubeObject): Namespace {
  const { name, labels = {}, annotations = {}, deletionTimestamp } = metadata;
  const isEnding = deletionTimestamp !== undefined;
  return { name, labels, annotations, ...(isEnding ? { isEnding } : {}) };
}
