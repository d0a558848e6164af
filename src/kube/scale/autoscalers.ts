// HorizontalPodAutoscalers of the objects that policies scale: two scalers of one object work against each other. Only the
// namespaces of these objects are followed.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { KubeClient } from "../api/client.ts";
import { fieldOf, type KubeObject, type Resource, textOf } from "../api/objects.ts";
import { Reflector } from "../api/reflector.ts";
import { groupOf, type ObjectName } from "./object.ts";

const AUTOSCALERS: Resource = {
  group: "autoscaling",
  version: "v2",
  plural: "horizontalpodautoscalers",
};

/** The target of an autoscaler; it is in the same namespace. */
type ScaleTarget = Pick<ObjectName, "apiVersion" | "kind" | "name">;

interface AutoscalersOptions {
  readonly client: KubeClient;
  /** Called when autoscalers may have changed. */
  readonly changed: () => void;
  readonly clock: Clock;
  readonly chance: Chance;
}

export class Autoscalers {
  readonly #options: AutoscalersOptions;
  /** By namespace. */
  readonly #reflectors = new Map<string, Reflector<ScaleTarget>>();
  readonly #closing = new Set<Promise<void>>();

  constructor(options: AutoscalersOptions) {
    this.#options = options;
  }

  /** Follows the autoscalers of exactly these namespaces. */
  follow(namespaces: ReadonlySet<string>): void {
    for (const [namespace, reflector] of this.#reflectors) {
      if (namespaces.has(namespace)) continue;
      this.#reflectors.delete(namespace);
      const closing = reflector.close().finally(() => this.#closing.delete(closing));
      this.#closing.add(closing);
    }
    for (const namespace of namespaces) {
      if (this.#reflectors.has(namespace)) continue;
      const { client, changed, clock, chance } = this.#options;
      const reflector = new Reflector({
        client,
        resource: AUTOSCALERS,
        selection: { namespace },
        keep: targetOf,
        changed: ({ puts, deletes }) => {
          // Only the target matters; the status changes every few seconds.
          if (puts.size > 0 || deletes.length > 0) changed();
        },
        followed: changed,
        clock,
        chance,
      });
      this.#reflectors.set(namespace, reflector);
      reflector.follow();
    }
  }

  /** Names of the autoscalers of an object, sorted. */
  of({ apiVersion, kind, namespace, name }: ObjectName): readonly string[] {
    const found: string[] = [];
    for (const [key, target] of this.#reflectors.get(namespace)?.entries() ?? []) {
      const isSame =
        target.name === name &&
        target.kind === kind &&
        groupOf(target.apiVersion) === groupOf(apiVersion);
      if (isSame) found.push(key.slice(key.indexOf("/") + 1));
    }
    return found.sort();
  }

  /** The reason why the autoscalers of a namespace are not followed; undefined when all are. */
  get fault(): Fault | undefined {
    for (const { following } of this.#reflectors.values()) {
      if (following.state === "away") return following.fault;
    }
    return undefined;
  }

  async close(): Promise<void> {
    this.follow(new Set());
    await Promise.all(this.#closing);
  }
}

function targetOf(object: KubeObject): ScaleTarget | undefined {
  const target = fieldOf(fieldOf(object, "spec"), "scaleTargetRef");
  const [apiVersion, kind, name] = ["apiVersion", "kind", "name"].map((key) => textOf(target, key));
  if (apiVersion === undefined || !kind || !name) return undefined;
  return { apiVersion, kind, name };
}
