// Takes of this agent's own checks that another agent decides, until they are decided: sent to whoever counts the key, and
// sent again when the key changes hands meanwhile.

import type { Clock } from "#base/clock.ts";
import {
  type BucketParams,
  type EngineAnswer,
  type SlotParams,
  UNDECIDED,
} from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { OwnedLimiter } from "../owned-limiters.ts";
import type { SlotLimiter } from "../owned-slots.ts";
import type { Link } from "./link.ts";
import type { Take, TakeReply } from "./messages.ts";

export interface TakesOptions {
  readonly clock: Clock;
  /** Longest wait for tokens, ms. */
  readonly timeoutMs: number;
  /** Most takes that wait for a change of hands. */
  readonly most: number;
  /** Takes where this agent counts the key; undefined where another one does. */
  readonly here: (take: WaitingTake) => EngineAnswer | Promise<EngineAnswer> | undefined;
  /** The way to whoever counts the key; undefined while nobody does. */
  readonly linkOf: (lo: number, hi: number) => Link | undefined;
  /** Whoever counts the key may have granted the slot, but nobody waits for it any more. */
  readonly abandoned: (take: SlotTake) => void;
}

export interface BucketTake extends Take<OwnedLimiter> {
  readonly params: BucketParams;
}

export interface SlotTake extends Take<SlotLimiter> {
  readonly params: SlotParams;
}

export type WaitingTake = BucketTake | SlotTake;

export function isSlotTake(take: WaitingTake): take is SlotTake {
  return take.id !== "";
}

interface Waiting {
  readonly take: WaitingTake;
  readonly until: number;
  readonly pending: Pending<EngineAnswer>;
  open: boolean;
  /** Of the alarm at the time limit, once this waits for a change of hands. */
  disarm: (() => void) | undefined;
  cancel: () => void;
}

/** Pause before a take is sent again to whoever counts the key then, ms. */
const RESEND_MS = 10;

const IGNORED = () => undefined;

export class Takes {
  readonly #options: TakesOptions;
  #parked: Waiting[] = [];
  #stopAlarm: (() => void) | undefined;
  #closed = false;

  constructor(options: TakesOptions) {
    this.#options = options;
  }

  take(take: WaitingTake, now: number): Pending<EngineAnswer> {
    const waiting: Waiting = {
      take,
      until: now + this.#options.timeoutMs,
      pending: new Pending(() => settle(waiting, UNDECIDED)),
      open: true,
      disarm: undefined,
      cancel: IGNORED,
    };
    this.#send(waiting);
    return waiting.pending;
  }

  /** Tokens come back; false when nobody can be told. */
  giveBack(take: Take<OwnedLimiter>): boolean {
    const link = this.#options.linkOf(take.lo, take.hi);
    return link?.requests.ask(take, "", undefined, IGNORED, IGNORED) !== undefined;
  }

  /** Sends again what waits for a change of hands. */
  resend(): void {
    this.#stopAlarm?.();
    this.#stopAlarm = undefined;
    const parked = this.#parked;
    this.#parked = [];
    for (const waiting of parked) if (waiting.open) this.#send(waiting);
  }

  close(): void {
    this.#closed = true;
    this.#stopAlarm?.();
    for (const waiting of this.#parked) settle(waiting, UNDECIDED);
    this.#parked = [];
  }

  #send(waiting: Waiting): void {
    const { here, linkOf } = this.#options;
    const { take } = waiting;
    const answer = here(take);
    if (answer instanceof Promise) {
      void answer.then((later) => settle(waiting, later));
      return;
    }
    if (answer !== undefined) {
      settle(waiting, { ...answer });
      return;
    }
    const link = linkOf(take.lo, take.hi);
    if (link === undefined) this.#park(waiting);
    else this.#ask(link, waiting);
  }

  #ask(link: Link, waiting: Waiting): void {
    const { take } = waiting;
    waiting.cancel = IGNORED;
    const request = link.requests.ask(
      take,
      "",
      undefined,
      (reply) => {
        if (reply === undefined && isSlotTake(take)) this.#options.abandoned(take);
        if (reply?.outcome === "retry") this.#park(waiting);
        else settle(waiting, reply === undefined ? UNDECIDED : answerOf(reply, take));
      },
      (reply) => {
        // Nobody waits for it any more.
        if (reply.outcome !== "granted") return;
        // Its end may have come before the take.
        if (isSlotTake(take)) this.#options.abandoned(take);
        else if (take.amount > 0) {
          const back = { ...take, amount: -take.amount, overflow: reply.full };
          link.requests.ask(back, "", undefined, IGNORED, IGNORED);
        }
      },
    );
    if (request === undefined) settle(waiting, UNDECIDED);
    else waiting.cancel = () => request.cancel();
  }

  /** Waits for a change of hands: whoever is asked does not count the key, or not yet. */
  #park(waiting: Waiting): void {
    if (!waiting.open) return;
    const { clock, most } = this.#options;
    if (this.#closed || clock.now() >= waiting.until || this.#parked.length >= most) {
      settle(waiting, UNDECIDED);
      return;
    }
    // A request that is sent again has a time limit of its own, which may end later.
    const left = waiting.until - clock.now();
    waiting.disarm ??= clock.alarm(left, () => settle(waiting, UNDECIDED));
    this.#parked.push(waiting);
    this.#stopAlarm ??= clock.alarm(RESEND_MS, () => this.resend());
  }
}

function settle(waiting: Waiting, answer: EngineAnswer): void {
  if (!waiting.open) return;
  waiting.open = false;
  waiting.disarm?.();
  waiting.cancel();
  waiting.pending.settle(answer);
}

function answerOf({ outcome, remaining, waitMs, full }: TakeReply, take: WaitingTake) {
  const granted = outcome === "granted";
  const most = isSlotTake(take) ? take.params.max : take.params.capacity;
  return {
    outcome: granted ? ("granted" as const) : ("refused" as const),
    remaining,
    current: most - remaining,
    waitMs,
    // As the engine that counts names what was taken from a bucket that keys share.
    id: take.id !== "" ? take.id : full && granted ? "overflow" : "",
    full,
  };
}
