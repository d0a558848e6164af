// Requests of this agent to the one that counts a key. Each is kept until it is answered, and sent again when another agent
// counts the key meanwhile.

import type { Clock } from "#base/clock.ts";
import { type EngineAnswer, type SlotParams, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { IGNORED } from "../../requests.ts";
import type { OwnedLimiter } from "../owned-limiters.ts";
import type { SlotLimiter } from "../owned-slots.ts";
import type { Link } from "./link.ts";
import type { BucketAsk, SlotTake, TakeReply } from "./messages.ts";

interface TakesOptions {
  readonly clock: Clock;
  /** Longest wait for an answer, ms. */
  readonly timeoutMs: number;
  /** Most takes that wait for a change of hands. */
  readonly most: number;
  /** Takes where this agent counts the key; undefined where another one does. */
  readonly takeHere: (take: OwnTake) => Answer | Promise<Answer> | undefined;
  /** The way to whoever counts the key; undefined while nobody does. */
  readonly linkOf: (lo: number, hi: number) => Link | undefined;
  /** Whoever counts the key may have granted the slot, but nobody waits for it any more. */
  readonly abandoned: (take: OwnSlotTake) => void;
}

/** A request of this agent about a bucket of its own limiter. */
export type OwnBucketAsk = BucketAsk<OwnedLimiter>;

export interface OwnSlotTake extends SlotTake<SlotLimiter> {
  readonly params: SlotParams;
}

export type OwnTake = OwnBucketAsk | OwnSlotTake;

/** The outcome of a take. */
export type Answer = Exclude<TakeReply, "retry">;

/** A take without an answer. */
interface OpenTake {
  readonly take: OwnTake;
  readonly until: number;
  /** Called once; undefined when there is no answer in time. */
  readonly answered: (answer: Answer | undefined) => void;
  /** Gets an answer that comes when nobody waits any more. */
  readonly late: (answer: Answer) => void;
  open: boolean;
  /** Cancels the alarm at the time limit; set while the take waits for a hand-over. */
  disarm: (() => void) | undefined;
  cancel: () => void;
}

/** Time for which a take is parked before it is sent to the member that counts the key by then, ms. */
const PARKED_MS = 10;

export class Takes {
  readonly #options: TakesOptions;
  #parked: OpenTake[] = [];
  #stopAlarm: (() => void) | undefined;
  #closed = false;

  constructor(options: TakesOptions) {
    this.#options = options;
  }

  /** Asks about a bucket. */
  ask(take: OwnBucketAsk, answered: OpenTake["answered"], late: OpenTake["late"]): void {
    this.#start(take, answered, late);
  }

  takeSlot(take: OwnSlotTake): Pending<EngineAnswer> {
    const pending = new Pending<EngineAnswer>(() => {
      this.#settle(waiting, undefined);
      pending.settle(UNDECIDED);
    });
    const waiting = this.#start(
      take,
      (answer) => pending.settle(answer === undefined ? UNDECIDED : slotAnswer(answer, take)),
      // Its end may have come before the take.
      ({ granted }) => {
        if (granted[0] === 1) this.#options.abandoned(take);
      },
    );
    return pending;
  }

  /** Tokens come back; false when nobody can be told. */
  giveBack(take: OwnBucketAsk): boolean {
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
    for (const waiting of this.#parked) this.#settle(waiting, undefined);
    this.#parked = [];
  }

  #start(take: OwnTake, answered: OpenTake["answered"], late: OpenTake["late"]): OpenTake {
    const { clock, timeoutMs } = this.#options;
    const waiting: OpenTake = {
      take,
      answered,
      late,
      until: clock.now() + timeoutMs,
      open: true,
      disarm: undefined,
      cancel: IGNORED,
    };
    this.#send(waiting);
    return waiting;
  }

  #send(waiting: OpenTake): void {
    const { takeHere, linkOf } = this.#options;
    const { take } = waiting;
    const answer = takeHere(take);
    if (answer instanceof Promise) {
      void answer.then((later) => {
        if (waiting.open) this.#settle(waiting, later);
        else waiting.late(later);
      });
      return;
    }
    if (answer !== undefined) {
      this.#settle(waiting, answer);
      return;
    }
    const link = linkOf(take.lo, take.hi);
    if (link === undefined) this.#park(waiting);
    else this.#ask(link, waiting);
  }

  #ask(link: Link, waiting: OpenTake): void {
    const { take, late } = waiting;
    waiting.cancel = IGNORED;
    const request = link.requests.ask(
      take,
      "",
      undefined,
      (reply) => {
        if (reply === undefined && take.request === undefined) this.#options.abandoned(take);
        if (reply === "retry") this.#park(waiting);
        else this.#settle(waiting, reply);
      },
      (reply) => {
        if (reply !== "retry") late(reply);
      },
    );
    if (request === undefined) this.#settle(waiting, undefined);
    else waiting.cancel = () => request.cancel();
  }

  /** Waits for a change of hands: whoever is asked does not count the key, or not yet. */
  #park(waiting: OpenTake): void {
    if (!waiting.open) return;
    const { clock, most } = this.#options;
    if (this.#closed || clock.now() >= waiting.until || this.#parked.length >= most) {
      this.#settle(waiting, undefined);
      return;
    }
    // A request that is sent again has a time limit of its own, which may end later.
    const left = waiting.until - clock.now();
    waiting.disarm ??= clock.alarm(left, () => this.#settle(waiting, undefined));
    this.#parked.push(waiting);
    this.#stopAlarm ??= clock.alarm(PARKED_MS, () => this.resend());
  }

  #settle(waiting: OpenTake, answer: Answer | undefined): void {
    if (!waiting.open) return;
    waiting.open = false;
    waiting.disarm?.();
    waiting.cancel();
    waiting.answered(answer);
  }
}

function slotAnswer(answer: Answer, { params, id }: OwnSlotTake): EngineAnswer {
  const { granted, tokens, full = false, inFlight: current = params.max - tokens } = answer;
  const outcome = granted[0] === 1 ? "granted" : "refused";
  return { outcome, remaining: tokens, current, waitMs: 0, id, full };
}
