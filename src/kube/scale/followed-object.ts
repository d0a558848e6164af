// One object that policies scale. Its replicas are read whenever it changes, and set when they differ from the wanted number.
// Rounds run one at a time, so a burst of changes costs one round, and a newer decision cancels the running round.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "../api/client.ts";
import type { RecordEvent } from "../api/events.ts";
import { Reflector } from "../api/reflector.ts";
import type { ScalableKind } from "./kinds.ts";
import { type ObjectName, objectText, type Replicas, replicasOf, scaleWith } from "./object.ts";

/** Rounds by result, for metrics. */
export interface RoundCounts {
  scaled: number;
  /** Somebody else changed the object during the round. */
  conflict: number;
  failed: number;
}

export interface FollowedObjectOptions {
  readonly client: KubeClient;
  readonly object: ObjectName;
  readonly resource: ScalableKind["resource"];
  /** Called when the replicas or the fault changed. */
  readonly changed: () => void;
  readonly record: RecordEvent;
  readonly counts: RoundCounts;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Pick<Log, "info" | "warn">;
}

/** Milliseconds before another round: the first pause, the longest one, and their random share. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const JITTER = 0.5;
/** The most conflicts in one round that are retried at once. */
const MAX_CONFLICTS = 5;
/** Milliseconds until a number that somebody else changed is set again. */
const CORRECT_MS = 10_000;

export class FollowedObject {
  readonly #options: FollowedObjectOptions;
  readonly #reflector: Reflector<true>;
  #exists = false;
  /** The uid of the object, from its scale. */
  #uid: string | undefined;
  #wanted: number | undefined;
  #replicas: Replicas | undefined;
  #fault: Fault | undefined = undefined;
  /** The last number that was set, and its time on the monotonic clock. */
  #set: { readonly replicas: number; readonly at: number } | undefined;
  #failures = 0;
  #due = false;
  #round: AbortController | undefined;
  #working: Promise<void> | undefined;
  #disarm: (() => void) | undefined;
  #closed = false;

  constructor(options: FollowedObjectOptions) {
    this.#options = options;
    const { client, object, resource, clock, chance } = options;
    const { namespace, name } = object;
    this.#reflector = new Reflector({
      client,
      resource,
      // Works with rights that are limited to named objects, because the API server compares this selector with them.
      selection: { namespace, fieldSelector: `metadata.name=${name}` },
      keep: () => true,
      changed: ({ puts, deletes }) => {
        if (puts.size > 0) this.#exists = true;
        else if (deletes.length > 0 || this.#reflector.size === 0) this.#gone();
        this.#wake();
      },
      followed: () => options.changed(),
      clock,
      chance,
      maxObjects: 1,
    });
  }

  /** Follows the object until `close`. */
  follow(): void {
    this.#reflector.follow();
  }

  /** The replicas that were read last; undefined if the object is missing or unknown. */
  get replicas(): Replicas | undefined {
    return this.#replicas;
  }

  /** The reason why the object is not followed or not scaled; undefined if it is, or before that is known. */
  get fault(): Fault | undefined {
    const { following } = this.#reflector;
    return following.state === "away" ? following.fault : this.#fault;
  }

  /** Sets the wanted number of replicas; undefined leaves them as they are. Cancels a round for another number. */
  want(replicas: number | undefined): void {
    if (replicas === this.#wanted) return;
    this.#wanted = replicas;
    this.#failures = 0;
    this.#disarmRetry();
    this.#round?.abort();
    this.#wake();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#disarmRetry();
    this.#round?.abort();
    await this.#reflector.close();
    await this.#working;
  }

  #gone(): void {
    this.#exists = false;
    this.#set = undefined;
    this.#failures = 0;
    this.#disarmRetry();
    this.#round?.abort();
    const { object } = this.#options;
    this.#settle(undefined, new Fault("NOT_FOUND", `there is no ${objectText(object)}`));
  }

  /** Starts a round, or another one after the current round. A pause after a failure continues. */
  #wake(): void {
    if (this.#closed || this.#disarm !== undefined) return;
    this.#due = true;
    this.#working ??= this.#rounds().finally(() => {
      this.#working = undefined;
      // A wake-up may have come after the last round.
      if (this.#due) this.#wake();
    });
  }

  async #rounds(): Promise<void> {
    while (this.#due && !this.#closed) {
      this.#due = false;
      if (!this.#exists) continue;
      const round = new AbortController();
      this.#round = round;
      try {
        const replicas = await this.#reconcile(round.signal);
        if (round.signal.aborted) continue;
        if (this.#fault !== undefined && !isServerAway(this.#fault)) {
          const fields = { object: objectText(this.#options.object) };
          this.#options.log.info(fields, "the replicas can be read and set again");
        }
        this.#failures = 0;
        this.#settle(replicas, undefined);
      } catch (thrown) {
        if (round.signal.aborted) continue;
        this.#failed(faultOf(thrown, this.#options.object));
      }
    }
  }

  /** Reads the scale, and sets it if another number is wanted. */
  async #reconcile(signal: AbortSignal): Promise<Replicas> {
    const { client, resource, object, record, counts, clock, log } = this.#options;
    const { namespace, name } = object;
    for (let conflicts = 0; ; conflicts++) {
      const scale = await client.get(resource, { namespace, name, subresource: "scale" }, signal);
      const found = replicasOf(scale);
      this.#uid = scale.metadata.uid;
      const wanted = this.#wanted;
      if (wanted === undefined || found.configured === wanted || signal.aborted) return found;
      const early = this.#earlyMs(wanted);
      if (early > 0) {
        this.#reconcileAfter(early);
        return found;
      }
      try {
        const written = await client.update(resource, scaleWith(scale, wanted), "scale", signal);
        counts.scaled += 1;
        this.#set = { replicas: wanted, at: clock.now() };
        const fields = { object: objectText(object), from: found.configured, to: wanted };
        log.info(fields, "set the number of replicas");
        const note = `set from ${found.configured} to ${wanted} replicas, as a policy decides`;
        record({ ...object, uid: this.#uid }, { type: "Normal", reason: "Scaled", note });
        return replicasOf(written);
      } catch (thrown) {
        if (Fault.from(thrown).code !== "ABORTED") throw thrown;
        counts.conflict += 1;
        if (conflicts >= MAX_CONFLICTS) throw thrown;
      }
    }
  }

  /** Milliseconds until the same number may be set again, so that two writers do not fight at full speed. */
  #earlyMs(wanted: number): number {
    if (this.#set?.replicas !== wanted) return 0;
    return this.#set.at + CORRECT_MS - this.#options.clock.now();
  }

  #failed(fault: Fault): void {
    const { record, counts, chance, log, object } = this.#options;
    counts.failed += 1;
    this.#failures += 1;
    // An outage of the API server concerns all objects and is logged once elsewhere.
    if (this.#fault?.message !== fault.message && !isServerAway(fault)) {
      const line = `the replicas cannot be read or set, will be retried: ${fault.message}`;
      log.warn({ object: objectText(object) }, line);
      const note = `a policy cannot scale it: ${fault.message}`;
      record({ ...object, uid: this.#uid }, { type: "Warning", reason: "NotScaled", note });
    }
    const ms = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
    this.#reconcileAfter(ms * (1 - JITTER * chance()));
    this.#settle(this.#replicas, fault);
  }

  #reconcileAfter(ms: number): void {
    this.#disarmRetry();
    this.#disarm = this.#options.clock.alarm(ms, () => {
      this.#disarm = undefined;
      this.#wake();
    });
  }

  #disarmRetry(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }

  #settle(replicas: Replicas | undefined, fault: Fault | undefined): void {
    const isSame =
      replicas?.configured === this.#replicas?.configured &&
      replicas?.actual === this.#replicas?.actual &&
      fault?.message === this.#fault?.message;
    this.#replicas = replicas;
    this.#fault = fault;
    if (!isSame) this.#options.changed();
  }
}

/** Errors other than Faults come from replies that cannot be parsed. */
function faultOf(thrown: unknown, object: ObjectName): Fault {
  if (thrown instanceof Fault) return thrown;
  const message = `the API server sent something that is not the scale of ${objectText(object)}`;
  return new Fault("UNAVAILABLE", message, { cause: thrown });
}
