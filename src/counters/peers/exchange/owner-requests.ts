// Requests of this agent to the owners of keys. A request waits for its answer until a time limit, and is sent again when
// another agent becomes the owner of its key.

import type { Clock } from "#base/clock.ts";
import { type EngineAnswer, type SlotParams, UNDECIDED } from "#flow/counters/counter-engine.ts";
import { Pending } from "#flow/flow.ts";
import { type BucketOwner, IGNORED } from "../../leases/bucket-owner.ts";
import type { OwnedLimiter, OwnedLimiters } from "../owned-limiters.ts";
import type { OwnedSlotLimiter } from "../owned-slots.ts";
import type { Link } from "./link.ts";
import type { BucketMessage, SlotTake, TakeReply } from "./messages.ts";

interface OwnerRequestsOptions {
  readonly clock: Clock;
  /** Longest wait for an answer, ms. */
  readonly timeoutMs: number;
  /** Most requests that wait for a change of ownership. */
  readonly most: number;
  readonly owned: OwnedLimiters;
  /** True if this agent can ask the others, and be asked. */
  readonly isReady: () => boolean;
  readonly owns: (lo: number, hi: number) => boolean;
  /** Answers where this agent is the owner; undefined where another one is. */
  readonly answerHere: (request: OwnRequest) => Answer | Promise<Answer> | undefined;
  /** The link to the owner of a key; undefined while there is none. */
  readonly linkOf: (lo: number, hi: number) => Link | undefined;
  /** The flow no longer waits, but the owner may have granted the slot. */
  readonly abandoned: (take: OwnSlotRequest) => void;
}

/** A request about a bucket of this agent's own limiter. */
type OwnBucketRequest = BucketMessage<OwnedLimiter>;

interface OwnSlotRequest extends SlotTake<OwnedSlotLimiter> {
  readonly params: SlotParams;
}

export type OwnRequest = OwnBucketRequest | OwnSlotRequest;

export type Answer = Exclude<TakeReply, "retry">;

interface PendingRequest {
  readonly request: OwnRequest;
  readonly until: number;
  /** Called once, with undefined if no answer came in time. */
  readonly answered: (answer: Answer | undefined) => void;
  /** Called with an answer that arrives later. */
  readonly late: (answer: Answer) => void;
  open: boolean;
  /** Cancels the alarm at the time limit; set while the request is parked. */
  disarm: (() => void) | undefined;
  cancel: () => void;
}

/** Time for which a request is parked before it is sent to the owner of that moment, ms. */
const PARKED_MS = 10;

export class OwnerRequests {
  readonly #options: OwnerRequestsOptions;
  /** Requests that wait until another agent owns their key. */
  #parked: PendingRequest[] = [];
  #stopAlarm: (() => void) | undefined;
  #closed = false;

  constructor(options: OwnerRequestsOptions) {
    this.#options = options;
  }

  /** The owners of a limiter's buckets. No request is sent while the limiter is undefined. */
  ownerOf(limiterNow: () => OwnedLimiter | undefined): BucketOwner {
    const { isReady, owned, owns, linkOf } = this.#options;
    return {
      ask: (value, bucketRequest, answered, late) => {
        const limiter = limiterNow();
        if (limiter === undefined || !isReady()) return false;
        const { lo, hi } = owned.hashOf(value, limiter);
        const { runs, back, lease } = bucketRequest;
        const request = { limiter, lo, hi, request: bucketRequest };
        // Returned tokens need no reply. An empty request reads the balance.
        const onlyBack = back > 0 && runs.length === 0 && lease === undefined;
        if (onlyBack && !owns(lo, hi)) {
          return linkOf(lo, hi)?.requests.ask(request, IGNORED, IGNORED) !== undefined;
        }
        this.#start(request, answered, late);
        return true;
      },
    };
  }

  takeSlot(take: OwnSlotRequest): Pending<EngineAnswer> {
    const pending = new Pending<EngineAnswer>(() => {
      this.#settle(waiting, undefined);
      pending.settle(UNDECIDED);
    });
    const waiting = this.#start(
      take,
      (answer) => pending.settle(answer === undefined ? UNDECIDED : slotAnswer(answer, take)),
      // The end of the slot may have overtaken the take.
      ({ granted }) => {
        if (granted[0] === 1) this.#options.abandoned(take);
      },
    );
    return pending;
  }

  /** Sends parked requests again. */
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

  #start(
    request: OwnRequest,
    answered: PendingRequest["answered"],
    late: PendingRequest["late"],
  ): PendingRequest {
    const { clock, timeoutMs } = this.#options;
    const waiting: PendingRequest = {
      request,
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

  #send(waiting: PendingRequest): void {
    const { answerHere, linkOf } = this.#options;
    const { request } = waiting;
    const answer = answerHere(request);
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
    const link = linkOf(request.lo, request.hi);
    if (link === undefined) this.#park(waiting);
    else this.#ask(link, waiting);
  }

  #ask(link: Link, waiting: PendingRequest): void {
    const { request, late } = waiting;
    waiting.cancel = IGNORED;
    const sent = link.requests.ask(
      request,
      (reply) => {
        if (reply === undefined && request.request === undefined) this.#options.abandoned(request);
        if (reply === "retry") this.#park(waiting);
        else this.#settle(waiting, reply);
      },
      (reply) => {
        if (reply !== "retry") late(reply);
      },
    );
    if (sent === undefined) this.#settle(waiting, undefined);
    else waiting.cancel = () => sent.cancel();
  }

  /** Waits for a change of ownership: the agent does not own the key, or does not own it yet. */
  #park(waiting: PendingRequest): void {
    if (!waiting.open) return;
    const { clock, most } = this.#options;
    if (this.#closed || clock.now() >= waiting.until || this.#parked.length >= most) {
      this.#settle(waiting, undefined);
      return;
    }
    // The link starts a new time limit when the request is sent again, so this alarm enforces the original one.
    const left = waiting.until - clock.now();
    waiting.disarm ??= clock.alarm(left, () => this.#settle(waiting, undefined));
    this.#parked.push(waiting);
    this.#stopAlarm ??= clock.alarm(PARKED_MS, () => this.resend());
  }

  #settle(waiting: PendingRequest, answer: Answer | undefined): void {
    if (!waiting.open) return;
    waiting.open = false;
    waiting.disarm?.();
    waiting.cancel();
    waiting.answered(answer);
  }
}

function slotAnswer(answer: Answer, { params, id }: OwnSlotRequest): EngineAnswer {
  const { granted, tokens, full = false, inFlight: current = params.max - tokens } = answer;
  const outcome = granted[0] === 1 ? "granted" : "refused";
  return { outcome, remaining: tokens, current, waitMs: 0, id, full };
}
