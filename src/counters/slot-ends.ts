// Ends of concurrency slots at Redis or another agent. An unconfirmed end is kept, and sent again when the server answers:
// otherwise a short outage would occupy the slots of all flows that ended during it.

import type { Clock } from "#base/clock.ts";
import type { SlotParams } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";

/** One slot that is to be ended. */
export interface SlotEnd<Key = string> {
  readonly key: Key;
  readonly id: string;
  readonly lifeMs: number;
  /** The flow did not run: the time that the slot was held teaches nothing. */
  readonly unused: boolean;
}

/**
 * Asks for the end of a slot, which may be asked for again. `answered` gets whether the slot was known, or undefined when
 * no answer came. Returns false, without a call back, when nobody can be asked.
 */
export type AskEnd<Key = string> = (
  end: SlotEnd<Key>,
  answered: (ended: boolean | undefined) => void,
) => boolean;

/** Part of all ends that may be kept of which so many are sent at one time, so that they leave room for checks. */
const AT_ONCE = 1 / 10;

interface SlotEndsOptions {
  readonly clock: Clock;
  /** Most ends that are kept: bounds the memory that an outage costs. */
  readonly most: number;
}

/** Numbers since the start. */
export interface SlotEndCounts {
  /** Not confirmed, and kept to be sent again. One that is sent many times counts once. */
  kept: number;
  /** Not confirmed, and not kept because too many were: the slot expires. */
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

  /** Sends the kept ends, the latest first: their slots would stay occupied for longest. */
  resume(): void {
    if (this.#resuming) return;
    this.#resuming = true;
    const { clock, most } = this.#options;
    const atOnce = Math.ceil(most * AT_ONCE);
    /** Their place cannot be asked yet. */
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
    // Others come first the next time.
    this.#kept.unshift(...unasked);
    this.#resuming = false;
  }

  /** False when too many are kept. */
  #keep(end: KeptEnd<Key>): boolean {
    if (this.#kept.length >= this.#options.most) {
      this.counts.dropped++;
      return false;
    }
    // It will be late.
    this.#kept.push({ ...end, unused: true });
    return true;
  }

  #keepFirst(end: KeptEnd<Key>): void {
    if (this.#keep(end)) this.counts.kept++;
  }
}

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Whether a text, which a caller chooses, has the form of the ids of slots: version 4 UUIDs (RFC 9562 §5.4). */
export function isSlotId(text: string): boolean {
  return ID.test(text);
}

/** Slots under one key, where flows of less than one token each would let any number pass. */
const MIN_SLOT_CAP = 1_024;

/** The most slots under one key: flows of less than one token could otherwise take any number. */
export function mostSlots({ max }: SlotParams): number {
  return Math.max(MIN_SLOT_CAP, 2 * max);
}
