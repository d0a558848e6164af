// Takes and ends concurrency slots at the owners of their keys.

import { randomUUID } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import type { EngineAnswer, SlotParams } from "#flow/counters/counter-engine.ts";
import type { Pending } from "#flow/flow.ts";
import { IGNORED } from "../leases/bucket-owner.ts";
import { isSlotId, type SlotEnd, SlotEnds } from "../slot-ends.ts";
import type { CountedKey } from "./exchange/keys.ts";
import type { Link } from "./exchange/link.ts";
import type { SlotMessage, TakeReply } from "./exchange/messages.ts";
import type { Answer, OwnerRequests } from "./exchange/owner-requests.ts";
import type { OwnedSlotLimiter, OwnedSlots } from "./owned-slots.ts";

/** One key of a concurrency limiter. */
type SlotKey = CountedKey<OwnedSlotLimiter>;

interface SlotRequestsOptions {
  readonly clock: Clock;
  readonly owned: OwnedSlots;
  /** Most ends that are kept to be sent again. */
  readonly most: number;
  /** True if this agent is the owner of a key. */
  readonly owns: (lo: number, hi: number) => boolean;
  /** The link to the owner of a key; undefined while there is none. */
  readonly linkOf: (lo: number, hi: number) => Link | undefined;
  readonly requests: OwnerRequests;
}

/** Pause before an end is sent again, to the owner of that moment, ms. */
const RESEND_MS = 100;

export class SlotRequests {
  readonly ends: SlotEnds<SlotKey>;
  readonly #options: SlotRequestsOptions;
  #stopAlarm: (() => void) | undefined;

  constructor(options: SlotRequestsOptions) {
    this.#options = options;
    const { clock, most } = options;
    this.ends = new SlotEnds((end, answered) => this.#ask(end, answered), { clock, most });
  }

  /** The id is chosen here, so that a slot can be ended even if the reply is lost. */
  take(
    { limiter, lo, hi }: SlotKey,
    want: number,
    params: SlotParams,
    now: number,
  ): EngineAnswer | Pending<EngineAnswer> {
    const { owned, owns, requests } = this.#options;
    const id = randomUUID();
    if (owns(lo, hi)) return owned.take({ limiter, lo, hi }, want, id, params, now);
    limiter.slots = params;
    return requests.takeSlot({ kind: "take", limiter, lo, hi, amount: want, id, params });
  }

  end(key: SlotKey, id: string, params: SlotParams, unused: boolean): boolean | Pending<boolean> {
    const { clock, owned, owns } = this.#options;
    const { maxInflightMs: lifeMs } = params;
    if (!owns(key.lo, key.hi)) return this.ends.end(key, id, params, unused);
    return owned.end({ key, id, lifeMs, unused }, clock.now());
  }

  /** Answers another agent. This one owns the key. */
  answer(ask: SlotMessage, given: SlotParams): Answer {
    const { clock, owned } = this.#options;
    const { lo, hi, id } = ask;
    if (!isSlotId(id)) return reply(false, 0, false);
    const key = { limiter: owned.known(ask.limiter.name), lo, hi };
    const now = clock.now();
    if (ask.kind === "end") {
      // The caller may have no numbers yet.
      const lifeMs = key.limiter.slots.maxInflightMs;
      const end = { key, id, lifeMs, unused: ask.unused };
      return reply(owned.end(end, now), 0, false);
    }
    return replyOf(owned.take(key, ask.amount, id, key.limiter.agree(given), now));
  }

  close(): void {
    this.#stopAlarm?.();
  }

  #ask(slot: SlotEnd<SlotKey>, answered: (ended: boolean | undefined) => void): boolean {
    const { clock, owned, owns, linkOf } = this.#options;
    const { key, id, unused } = slot;
    const { lo, hi } = key;
    if (owns(lo, hi)) {
      answered(owned.end(slot, clock.now()));
      return true;
    }
    const end = { ...key, kind: "end", id, unused } as const;
    const settled = (reply: TakeReply | undefined) => {
      if (reply === "retry") this.#resendSoon();
      answered(reply === undefined || reply === "retry" ? undefined : reply.granted[0] === 1);
    };
    return linkOf(lo, hi)?.requests.ask(end, settled, IGNORED) !== undefined;
  }

  /** The agent does not own the key, or does not own it yet. */
  #resendSoon(): void {
    this.#stopAlarm ??= this.#options.clock.alarm(RESEND_MS, () => {
      this.#stopAlarm = undefined;
      this.ends.resume();
    });
  }
}

/** Converts the answer of an engine to a reply. */
export function replyOf({ outcome, remaining, current, full }: EngineAnswer): Answer {
  return { ...reply(outcome === "granted", remaining, full), inFlight: current };
}

function reply(granted: boolean, tokens: number, full: boolean): Answer {
  return { granted: [granted ? 1 : 0], tokens, waitMs: 0, leased: 0, recall: false, full };
}
