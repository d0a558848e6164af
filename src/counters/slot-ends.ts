// Ends concurrency slots at Redis or another agent. An unconfirmed end is kept and sent again when the server answers.
// Otherwise all flows that ended during a short outage would keep their slots.

import type { Clock } from "#base/clock.ts";
import type { SlotParams } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";

/** One slot that is to be ended. */
export interface SlotEnd<Key = string> {
  readonly key: Key;
  readonly id: string;
  readonly lifeMs: number;
  /** The flow did not run, so the time that the slot was held is not a latency. */
  readonly unused: boolean;
}

/**
 * Asks the owner to end a slot; may be repeated. `answered` gets whether the slot was known, or undefined without an
 * answer. Returns false, without a callback, if the owner cannot be asked.
 */
export type AskEnd<Key = string> = (
  end: SlotEnd<Key>,
  answered: (ended: boolean | undefined) => void,
) => boolean;

/** At most this part of `most` is sent at one time, so that ends leave room for checks. */
const AT_ONCE = 1 / 10;

interface SlotEndsOptions {
  readonly clock: Clock;
  /** Most ends that are kept. Bounds the memory that an outage costs. */
  readonly most: number;
}

/** Numbers since the start. */
export interface SlotEndCounts {
  /** Unconfirmed ends that were kept to be sent again, each counted once. */
  kept: number;
  /** Unconfirmed ends that were dropped because too many were kept: their slots expire. */
  dropped: number;
}

interface KeptEnd<Key> extends SlotEnd<Key> {
  /** When the slot expires by itself. */
  readonly until: number;
}

export class SlotEnds<Key = string> {
  readonly counts: SlotEndCounts = { kept: 0, dropped: 0 };
  readonly #ask: AskEnd<Key>;
  readonly #options: SlotEndsOptions;
  readonly #kept: KeptEnd<Key>[] = [];
  #sending = 0;
  #resuming = false;

  constructor(ask: AskEnd<Key>, options: SlotEndsOptions) {
    this.#ask = ask;
    this.#options = options;
  }

  /** False when the slot is unknown or expired, or when nobody could be asked yet. */
  end(
    key: Key,
    id: string,
    { maxInflightMs }: SlotParams,
    unused: boolean,
  ): boolean | Pending<boolean> {
    const until = this.#options.clock.now() + maxInflightMs;
    const end = { key, id, lifeMs: maxInflightMs, unused, until };
    const pending = new Pending<boolean>();
    const asked = this.#ask(end, (ended) => {
      if (ended === undefined) this.#keepFirst(end);
      else this.resume();
      pending.settle(ended ?? false);
    });
    if (asked) return pending;
    this.#keepFirst(end);
    return false;
  }

  /** Sends the kept ends, the latest first, because their slots would expire last. */
  resume(): void {
    if (this.#resuming) return;
    this.#resuming = true;
    const { clock, most } = this.#options;
    const atOnce = Math.ceil(most * AT_ONCE);
    /** Ends whose owners cannot be asked yet. */
    const unasked: KeptEnd<Key>[] = [];
    while (this.#sending < atOnce && unasked.length < atOnce) {
      const end = this.#kept.pop();
      if (end === undefined) break;
      if (end.until <= clock.now()) continue;
      this.#sending++;
      const asked = this.#ask(end, (ended) => {
        this.#sending--;
        if (ended === undefined) this.#keep(end);
        else this.resume();
      });
      if (asked) continue;
      this.#sending--;
      unasked.push(end);
    }
    // The next time, other ends come first.
    this.#kept.unshift(...unasked);
    this.#resuming = false;
  }

  /** False when too many are kept. */
  #keep(end: KeptEnd<Key>): boolean {
    if (this.#kept.length >= this.#options.most) {
      this.counts.dropped++;
      return false;
    }
    // The end will be late, so the time that the slot was held is not a latency.
    this.#kept.push({ ...end, unused: true });
    return true;
  }

  #keepFirst(end: KeptEnd<Key>): void {
    if (this.#keep(end)) this.counts.kept++;
  }
}

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** True if a text has the form of a slot id, a version 4 UUID (RFC 9562 §5.4). Callers choose the text. */
export function isSlotId(text: string): boolean {
  return ID.test(text);
}

const MIN_SLOT_CAP = 1_024;

/** The most slots under one key: flows of less than one token could otherwise take any number. */
export function mostSlots({ max }: SlotParams): number {
  return Math.max(MIN_SLOT_CAP, 2 * max);
}
