// Follows the ResourceQuotas and LimitRanges of the cluster, which injection compares with the resources of sidecars. Without
// the right to read them, or while the API server is away, pods are injected without such warnings.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { fieldOf, type KubeObject, listOf, type Resource, textOf } from "#kube/api/objects.ts";
import { type Changes, Reflector } from "#kube/api/reflector.ts";
import type { Texts } from "../pod.ts";
import type { ResourceBound } from "../settings.ts";

const QUOTAS: Resource = { group: "", version: "v1", plural: "resourcequotas" };
const RANGES: Resource = { group: "", version: "v1", plural: "limitranges" };

interface ResourceBoundsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

type Kept = readonly ResourceBound[];

export class ResourceBounds {
  readonly #reflectors: readonly Reflector<Kept>[];
  /** By namespace, then by kind and name. */
  readonly #known = new Map<string, Map<string, Kept>>();

  constructor({ log, ...options }: ResourceBoundsOptions) {
    const followed = new Map([
      [QUOTAS, quotaOf],
      [RANGES, rangesOf],
    ]);
    this.#reflectors = [...followed].map(
      ([resource, keep]) =>
        new Reflector<Kept>({
          ...options,
          resource,
          keep,
          changed: (changes) => this.#take(resource.plural, changes),
          followed: (following) => {
            if (following.state === "away") warn(log, following.fault);
          },
        }),
    );
  }

  /** Retries while the API server is away. */
  follow(): void {
    for (const reflector of this.#reflectors) reflector.follow();
  }

  async close(): Promise<void> {
    for (const reflector of this.#reflectors) await reflector.close();
  }

  /** The known bounds of a namespace. */
  of(namespace: string): readonly ResourceBound[] {
    return [...(this.#known.get(namespace)?.values() ?? [])].flat();
  }

  #take(kind: string, { puts, deletes }: Changes<Kept>): void {
    for (const [key, bounds] of puts) {
      const namespace = namespaceIn(key);
      const known = this.#known.get(namespace) ?? new Map<string, Kept>();
      this.#known.set(namespace, known.set(`${kind}/${key}`, bounds));
    }
    for (const key of deletes) {
      const namespace = namespaceIn(key);
      const known = this.#known.get(namespace);
      known?.delete(`${kind}/${key}`);
      if (known?.size === 0) this.#known.delete(namespace);
    }
  }
}

/** Outages of the API server are reported elsewhere. */
function warn(log: Log, { code, message }: Fault): void {
  if (code === "PERMISSION_DENIED")
    log.warn(
      {},
      `cannot read ResourceQuotas or LimitRanges, so there are no warnings about sidecars that exceed them: ${message}`,
    );
}

function namespaceIn(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

/** Quotas with scopes apply to some pods only, and are ignored. */
function quotaOf({ metadata, ...object }: KubeObject): Kept {
  const spec = fieldOf(object, "spec");
  const scopes = fieldOf(spec, "scopes") ?? fieldOf(spec, "scopeSelector");
  if (scopes !== undefined) return [];
  return [{ kind: "ResourceQuota", name: metadata.name, hard: textsIn(spec, "hard") }];
}

function rangesOf({ metadata, ...object }: KubeObject): Kept {
  return listOf(fieldOf(object, "spec"), "limits")
    .filter((item) => textOf(item, "type") === "Container")
    .map((item) => ({
      kind: "LimitRange",
      name: metadata.name,
      max: textsIn(item, "max"),
      min: textsIn(item, "min"),
      defaults: textsIn(item, "default"),
      defaultRequests: textsIn(item, "defaultRequest"),
    }));
}

function textsIn(object: unknown, field: string): Texts {
  const found = Object.entries(fieldOf(object, field) ?? {});
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]));
}
