// Takes of this agent's own checks that another agent decides, until they are decided: sent to whoever counts the key, and
// sent again when the key changes hands meanwhile.

import type { Clock } from "#base/clock.ts";
import { type BucketParams, type EngineAnswer, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import type { Link } from "./exchange/link.ts";
import type { Take, TakeReply } from "./exchange/messages.ts";
import type { OwnedLimiter } from "./owned-limiters.ts";

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
}

export interface WaitingTake extends Take<OwnedLimiter> {
  readonly params: BucketParams;
}

interface Waiting extends WaitingTake {
  readonly until: number;
  readonly pending: Pending<EngineAnswer>;
  open: boolean;
  cancel: () => void;
}

/** Pause before a take is sent again to whoever counts the key then, ms. */
const AGAIN_MS = 10;

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
      ...take,
      until: now + this.#options.timeoutMs,
      pending: new Pending(() => settle(waiting, UNDECIDED)),
      open: true,
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
  again(): void {
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
    const answer = here(waiting);
    if (answer instanceof Promise) {
      void answer.then((later) => settle(waiting, later));
      return;
    }
    if (answer !== undefined) {
      settle(waiting, { ...answer });
      return;
    }
    const link = linkOf(waiting.lo, waiting.hi);
    if (link === undefined) this.#park(waiting);
    else this.#ask(link, waiting);
  }

  #ask(link: Link, waiting: Waiting): void {
    const { amount, params } = waiting;
    waiting.cancel = IGNORED;
    const request = link.requests.ask(
      waiting,
      "",
      undefined,
      (reply) => {
        if (reply?.outcome === "retry") this.#park(waiting);
        else settle(waiting, reply === undefined ? UNDECIDED : answerOf(reply, params));
      },
      (reply) => {
        // Nobody waits for it any more.
        if (reply.outcome !== "granted" || amount <= 0) return;
        const back = { ...waiting, amount: -amount, overflow: reply.full };
        link.requests.ask(back, "", undefined, IGNORED, IGNORED);
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
    this.#parked.push(waiting);
    this.#stopAlarm ??= clock.alarm(AGAIN_MS, () => this.again());
  }
}

function settle(waiting: Waiting, answer: EngineAnswer): void {
  if (!waiting.open) return;
  waiting.open = false;
  waiting.cancel();
  waiting.pending.settle(answer);
}

function answerOf({ outcome, remaining, waitMs, full }: TakeReply, { capacity }: BucketParams) {
  const granted = outcome === "granted";
  return {
    outcome: granted ? ("granted" as const) : ("refused" as const),
    remaining,
    current: capacity - remaining,
    waitMs,
    // As the engine that counts names what was taken from a bucket that keys share.
    id: full && granted ? "overflow" : "",
    full,
  };
}
