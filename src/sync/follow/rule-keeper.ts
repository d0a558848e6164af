// Keeps rules in force that the store lost. A store that comes back empty looks like a controller that removed every
// policy, and so does another implementation's controller whose lease ends. Following such deletes would open every
// limiter. So a removal counts only after the controller has confirmed it under the key `COMPLETE`.

import type { Clock } from "#base/clock.ts";
import type { StoreUpdate } from "#store/store.ts";
import { COMPLETE, isNameInGroup, parseAgentKey } from "../keys.ts";

/** A controller that never confirms anything has written all its rules again when none came for so many milliseconds. */
const SETTLED_MS = 10_000;
/** Milliseconds until an unconfirmed removal is reported. The confirmation usually follows at once. */
const REPORTED_MS = 1_000;

interface KeepRulesOptions {
  readonly group: string;
  readonly clock: Pick<Clock, "alarm">;
  /** Called with the number of keys that stay in force although the store lost them, when it becomes known or changes. */
  readonly kept: (keys: number) => void;
}

/** The batches without unconfirmed deletes. These follow once a controller has written its rules again. */
export async function* keepRules(
  batches: AsyncIterable<StoreUpdate>,
  { group, clock, kept }: KeepRulesOptions,
): AsyncIterable<StoreUpdate> {
  const keeper = new RuleKeeper(group);
  const source = batches[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<StoreUpdate>> | undefined;
  let reported = 0;
  let disarmReport: (() => void) | undefined;
  let disarmSettled: () => void = () => undefined;
  let isSettled = false;
  let wake: () => void = () => undefined;
  const report = () => {
    disarmReport = undefined;
    if (keeper.keptKeys === reported) return;
    reported = keeper.keptKeys;
    kept(reported);
  };
  try {
    for (;;) {
      next ??= source.next();
      // A new promise each time, because one that outlives its race keeps the results of all races that it lost.
      const settled = Promise.withResolvers<undefined>();
      wake = () => settled.resolve(undefined);
      if (isSettled) wake();
      const result = await Promise.race([next, settled.promise]);
      let batch: StoreUpdate;
      if (result === undefined) {
        isSettled = false;
        batch = keeper.release();
      } else {
        next = undefined;
        if (result.done === true) return;
        const { unconfirmedWrites } = keeper;
        batch = keeper.take(result.value);
        if (keeper.unconfirmedWrites !== unconfirmedWrites) {
          disarmSettled();
          isSettled = false;
          disarmSettled = clock.alarm(SETTLED_MS, () => {
            isSettled = true;
            wake();
          });
        }
      }
      yield batch;
      if (keeper.keptKeys === 0) disarmSettled();
      if (reported > 0 || keeper.keptKeys === 0) {
        disarmReport?.();
        report();
      } else disarmReport ??= clock.alarm(REPORTED_MS, report);
    }
  } finally {
    disarmSettled();
    disarmReport?.();
    await source.return?.();
  }
}

/** Decides which deletes to follow. It knows nothing of time. */
export class RuleKeeper {
  readonly #group: string;
  /** The keys of this group in the store, by tree and kind. */
  readonly #stored = new Map<string, Set<string>>();
  /** Keys that stay in force although the store lost them. */
  readonly #kept = new Set<string>();
  /** The last value under `COMPLETE`: a controller that writes it confirms what it removes. */
  #confirmation: string | undefined;
  #revision = 0;
  #unconfirmedWrites = 0;

  constructor(group: string) {
    this.#group = group;
  }

  /** Keys that stay in force although the store lost them. */
  get keptKeys(): number {
    return this.#kept.size;
  }

  /** Counts the batches with rules that came, while keys were kept, from controllers that never confirm anything. */
  get unconfirmedWrites(): number {
    return this.#unconfirmedWrites;
  }

  /** The part of a batch that is to be applied. */
  take(batch: StoreUpdate): StoreUpdate {
    const { revision, puts, deletes, reset = false } = batch;
    this.#revision = revision;
    const emptied = this.#recordKeys(batch);
    const confirmed = this.#isConfirmed(batch, emptied);
    for (const { key } of puts) this.#kept.delete(key);
    if (confirmed) return { revision, puts, deletes: [...this.#takeKept(), ...deletes] };
    // The deletes of a controller that never confirms anything count at once, unless all rules of a kind are gone.
    const believed = !reset && !emptied && this.#confirmation === undefined;
    if (believed && this.#kept.size === 0) return batch;
    for (const key of deletes) if (this.#placeOf(key) !== undefined) this.#kept.add(key);
    const rules = puts.some(({ key }) => parseAgentKey(key)?.tree === "config");
    if (this.#kept.size > 0 && rules && this.#confirmation === undefined)
      this.#unconfirmedWrites += 1;
    return { revision, puts, deletes: [] };
  }

  /** The deletes that were held back, which count from now on. */
  release(): StoreUpdate {
    return { revision: this.#revision, puts: [], deletes: this.#takeKept() };
  }

  #takeKept(): readonly string[] {
    const keys = [...this.#kept];
    this.#kept.clear();
    return keys;
  }

  /** True if a controller confirms that the store now has everything that it publishes. */
  #isConfirmed({ puts, deletes, reset = false }: StoreUpdate, emptied: boolean): boolean {
    const entry = puts.find(({ key }) => key === COMPLETE);
    if (entry === undefined) {
      // A deleted key means that no controller confirms anything any more, unless everything else was deleted with it.
      // The store may report other changes in the same batch.
      if (!reset && !emptied && deletes.includes(COMPLETE)) this.#confirmation = undefined;
      return false;
    }
    const before = this.#confirmation;
    this.#confirmation = new TextDecoder().decode(entry.value);
    // A backup holds an old confirmation, which says nothing about what the backup lacks.
    return !reset || this.#confirmation !== before;
  }

  /** Records which keys the store has. Returns whether the batch deletes the last key of a kind. */
  #recordKeys({ puts, deletes }: StoreUpdate): boolean {
    for (const { key } of puts) {
      const place = this.#placeOf(key);
      if (place === undefined) continue;
      const keys = this.#stored.get(place) ?? new Set();
      keys.add(key);
      this.#stored.set(place, keys);
    }
    let emptied = false;
    for (const key of deletes) {
      const keys = this.#stored.get(this.#placeOf(key) ?? "");
      if (keys?.delete(key) && keys.size === 0) emptied = true;
    }
    return emptied;
  }

  /** Tree and kind of a key of this group; undefined for other keys. */
  #placeOf(key: string): string | undefined {
    const parsed = parseAgentKey(key);
    if (parsed === undefined || !isNameInGroup(parsed.name, this.#group)) return undefined;
    return `${parsed.tree}/${parsed.kind}`;
  }
}
