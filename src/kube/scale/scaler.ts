// Scales the objects that policies name. Knows the replicas, the fault and the autoscalers of each. Only these objects are
// followed, because a cluster may have thousands of others.

import { pause } from "#base/async/wait.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "../api/client.ts";
import type { RecordEvent } from "../api/events.ts";
import { Autoscalers } from "./autoscalers.ts";
import { FollowedObject, type RoundCounts } from "./followed-object.ts";
import { type ScalableKind, scalableKinds } from "./kinds.ts";
import type { ObjectName, Replicas } from "./object.ts";

export interface ScalerOptions {
  readonly client: KubeClient;
  /** Called when replicas, faults or autoscalers of an object changed. */
  readonly changed: () => void;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Pick<Log, "info" | "warn">;
}

/** An object and its wanted replicas; undefined leaves them as they are. */
export interface WantedScale {
  readonly object: ObjectName;
  readonly replicas: number | undefined;
}

interface Entry {
  wanted: WantedScale;
  /** Undefined until its kind is found. */
  followed: FollowedObject | undefined;
  /** The reason why its kind is not found. */
  fault: Fault | undefined;
}

/** The most objects: each needs a watch, which is a connection. */
export const MAX_OBJECTS = 1_000;
/** Milliseconds between searches for missing kinds, which somebody may define later. */
const SEARCH_MS = 15_000;

export class Scaler {
  readonly counts: RoundCounts = { scaled: 0, conflict: 0, failed: 0 };
  readonly #options: ScalerOptions;
  readonly #autoscalers: Autoscalers;
  /** By `objectText`. */
  readonly #held = new Map<string, Entry>();
  readonly #closing = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #searching: Promise<void> | undefined;
  /** Ends the pause of the search under way. */
  #hurry: AbortController | undefined;
  #leftOut = 0;

  constructor(options: ScalerOptions) {
    this.#options = options;
    this.#autoscalers = new Autoscalers(options);
  }

  /** Follows exactly these objects, by `objectText`. */
  set(wanted: ReadonlyMap<string, WantedScale>): void {
    for (const [text, { followed }] of this.#held) {
      if (wanted.has(text)) continue;
      this.#held.delete(text);
      if (followed !== undefined) this.#close(followed);
    }
    this.#leftOut = 0;
    for (const [text, each] of wanted) {
      const held = this.#held.get(text);
      if (held !== undefined) {
        held.wanted = each;
        held.followed?.want(each.replicas);
      } else if (this.#held.size >= MAX_OBJECTS) this.#leftOut += 1;
      else {
        this.#held.set(text, { wanted: each, followed: undefined, fault: undefined });
        this.#hurry?.abort();
      }
    }
    this.#autoscalers.follow(
      new Set([...this.#held.values()].map(({ wanted: { object } }) => object.namespace)),
    );
    this.#search();
  }

  /** The numbers of objects that are followed, and that are not because of a fault or of the limit. */
  get sizes(): { readonly followed: number; readonly faulty: number } {
    let faulty = 0;
    for (const held of this.#held.values()) if (faultOf(held) !== undefined) faulty += 1;
    return { followed: this.#held.size - faulty, faulty: faulty + this.#leftOut };
  }

  replicasOf(text: string): Replicas | undefined {
    return this.#held.get(text)?.followed?.replicas;
  }

  /** The reason why an object is not scaled; undefined if it is, or before that is known. */
  faultOf(text: string): Fault | undefined {
    const held = this.#held.get(text);
    if (held !== undefined) return faultOf(held);
    if (this.#leftOut === 0) return undefined;
    return new Fault("RESOURCE_EXHAUSTED", `a controller scales ${MAX_OBJECTS} objects at most`);
  }

  /** Names of the HorizontalPodAutoscalers of the same object. */
  autoscalersOf(text: string): readonly string[] {
    const held = this.#held.get(text);
    return held === undefined ? [] : this.#autoscalers.of(held.wanted.object);
  }

  /**
   * A reason why objects are not scaled or HorizontalPodAutoscalers are not followed; undefined for none. Missing objects
   * and kinds do not count.
   */
  get fault(): Fault | undefined {
    for (const held of this.#held.values()) {
      const fault = faultOf(held);
      if (fault !== undefined && fault.code !== "NOT_FOUND") return fault;
    }
    return this.#autoscalers.fault;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    for (const { followed } of this.#held.values())
      if (followed !== undefined) this.#close(followed);
    this.#held.clear();
    await Promise.all([...this.#closing, this.#autoscalers.close(), this.#searching]);
  }

  #close(followed: FollowedObject): void {
    const closing = followed.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #search(): void {
    this.#searching ??= this.#searchAll().finally(() => {
      this.#searching = undefined;
      // Another object may have been added after the last search.
      if (!this.#stop.signal.aborted && this.#withoutKind().length > 0) this.#search();
    });
  }

  /** Searches until the kind of every object is found. */
  async #searchAll(): Promise<void> {
    const { client, clock, changed } = this.#options;
    const { signal } = this.#stop;
    // Objects that are added in one turn of the event loop share a search.
    await undefined;
    while (!signal.aborted && this.#withoutKind().length > 0) {
      try {
        this.#settle(await scalableKinds(client, signal));
      } catch (thrown) {
        if (signal.aborted) return;
        for (const held of this.#withoutKind()) held.fault = Fault.from(thrown);
      }
      changed();
      if (this.#withoutKind().length === 0) return;
      const hurry = new AbortController();
      this.#hurry = hurry;
      await pause(SEARCH_MS, clock, AbortSignal.any([signal, hurry.signal]));
    }
  }

  #withoutKind(): readonly Entry[] {
    return [...this.#held.values()].filter(({ followed }) => followed === undefined);
  }

  #settle(kinds: readonly ScalableKind[]): void {
    const { client, record, clock, chance, log, changed } = this.#options;
    for (const held of this.#withoutKind()) {
      const { object, replicas } = held.wanted;
      const found = kinds.find(
        ({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind,
      );
      if (found === undefined) {
        const what = `the cluster has no kind ${object.kind} of ${object.apiVersion} with a scale`;
        held.fault = new Fault("NOT_FOUND", what);
        continue;
      }
      held.fault = undefined;
      const { counts } = this;
      const followed = new FollowedObject({
        client,
        object,
        resource: found.resource,
        changed,
        record,
        counts,
        clock,
        chance,
        log,
      });
      held.followed = followed;
      followed.want(replicas);
      followed.follow();
    }
  }
}

function faultOf({ followed, fault }: Entry): Fault | undefined {
  return followed === undefined ? fault : followed.fault;
}
