// Requests to a server of counters, each with a time limit, behind a circuit breaker. The breaker opens at the first request
// without a reply, so that an outage costs one time limit, and closes when a probe succeeds.

import type { Clock } from "#base/clock.ts";
import { systemErrorText } from "#base/fault.ts";

/** Learns how one request ended: exactly one of these methods is called, once. */
export interface ReplyReceiver<Reply> {
  replied(reply: Reply): void;
  /** The server answers, but cannot decide this request. Other requests are not affected. */
  undecided(): void;
  /** The server does not answer, or cannot decide any request. */
  failed(thrown: unknown): void;
}

/** Replaces a reply if the server cannot decide this request, although it answers others. */
export const UNDECIDABLE = Symbol("undecidable");

/** Makes one call for several requests, and reports the result to their receivers. */
export async function receiveAll<Reply>(
  receivers: readonly ReplyReceiver<Reply>[],
  call: () => Promise<readonly (Reply | typeof UNDECIDABLE | undefined)[]>,
): Promise<void> {
  let replies: Awaited<ReturnType<typeof call>> = [];
  let failure: unknown = new Error("fewer replies than requests");
  try {
    replies = await call();
  } catch (thrown) {
    failure = thrown;
  }
  for (let at = 0; at < receivers.length; at++) {
    const reply = replies[at];
    if (reply === undefined) receivers[at]?.failed(failure);
    else if (reply === UNDECIDABLE) receivers[at]?.undecided();
    else receivers[at]?.replied(reply);
  }
}

/**
 * The connection to the server. When it is lost or closed, it settles all pending receivers and promises.
 */
export interface Channel<Request, Reply> {
  run(request: Request, receiver: ReplyReceiver<Reply>): void;
  /**
   * Resolves if the server for this request can count; any server, if the request is undefined. Rejects with the reason
   * if it cannot.
   */
  probe(request: Request | undefined): Promise<void>;
  /** Connects again, perhaps to another server that is now responsible. */
  reset(): void;
  close(): void;
}

/** Called once, with undefined if no answer came in time. */
export type Answered<Reply> = (reply: Reply | undefined) => void;

export interface RequestsOptions {
  readonly clock: Clock;
  /** Longest wait for a reply, ms. */
  readonly timeoutMs: number;
  /** Time between two probes of a server that does not answer, ms. */
  readonly probeMs: number;
  /** Most pending requests. Bounds the memory that a slow server costs. */
  readonly most: number;
  /** Called at each transition: with the reason why the server cannot be asked, or with undefined when it can again. */
  readonly changed: (reason: string | undefined) => void;
  /** Called when a probe fails for a new reason. */
  readonly reasonChanged?: ((reason: string) => void) | undefined;
}

/** Numbers since the start. */
export interface RequestCounts {
  answered: number;
  /** No reply in time, or an error. */
  failed: number;
  /** Not asked, because the server is away. */
  skipped: number;
  /** Not asked, because too many requests wait. */
  refused: number;
  /** Transitions. */
  away: number;
  back: number;
}

export const NO_REQUESTS: Readonly<RequestCounts> = Object.freeze({
  answered: 0,
  failed: 0,
  skipped: 0,
  refused: 0,
  away: 0,
  back: 0,
});

/** One request that was sent. */
export interface SentRequest {
  /** The caller no longer waits. */
  cancel(): void;
}

interface WaitingRequest<Request, Reply> {
  readonly request: Request;
  /** On `Clock.now()`. */
  readonly until: number;
  /** Undefined once it has been called. */
  answered: Answered<Reply> | undefined;
}

function settle<Reply>(waiting: WaitingRequest<unknown, Reply>, reply: Reply | undefined): void {
  const { answered } = waiting;
  waiting.answered = undefined;
  answered?.(reply);
}

export class Requests<Request, Reply> {
  readonly counts: RequestCounts = { ...NO_REQUESTS };
  readonly #channel: Channel<Request, Reply>;
  readonly #options: RequestsOptions;
  /** In order of their time limits. */
  #waiting: WaitingRequest<Request, Reply>[] = [];
  /** Requests before this index of `#waiting` have ended. */
  #firstOpen = 0;
  #inFlight = 0;
  #stopAlarm: (() => void) | undefined;
  #stopProbe: (() => void) | undefined;
  #reason: string | undefined;
  #closed = false;
  /** Set by `drain`; resolved by `close`. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(channel: Channel<Request, Reply>, options: RequestsOptions) {
    this.#channel = channel;
    this.#options = options;
  }

  /** Reason why the server is not asked now; undefined while it is. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /**
   * Asks the server. `late` gets a reply that arrives after the time limit. Requests that `late` makes are usually skipped,
   * because the breaker is open by then. Returns undefined, without any call back, when the server is not asked.
   */
  ask(
    request: Request,
    answered: Answered<Reply>,
    late: (reply: Reply) => void,
  ): SentRequest | undefined {
    if (this.#reason !== undefined || this.#closed || this.#drained !== undefined) {
      this.counts.skipped++;
      return undefined;
    }
    if (this.#inFlight >= this.#options.most) {
      this.counts.refused++;
      return undefined;
    }
    const { clock, timeoutMs } = this.#options;
    const until = clock.now() + timeoutMs;
    const waiting: WaitingRequest<Request, Reply> = { request, until, answered };
    this.#waiting.push(waiting);
    if (this.#stopAlarm === undefined) this.#watch(until);
    this.#inFlight++;
    this.#channel.run(request, {
      replied: (reply) => {
        const isLate = waiting.answered === undefined;
        if (!isLate) this.counts.answered++;
        this.#ended();
        if (isLate) late(reply);
        else settle(waiting, reply);
      },
      undecided: () => {
        if (waiting.answered !== undefined) this.counts.failed++;
        this.#ended();
        settle(waiting, undefined);
      },
      failed: (thrown) => {
        this.#inFlight--;
        // First, so that further requests of the caller are skipped.
        this.trip(systemErrorText(thrown), request);
        settle(waiting, undefined);
      },
    });
    return { cancel: () => settle(waiting, undefined) };
  }

  /** The server cannot be asked: ends the wait of all requests, and probes until it can. */
  trip(reason: string, request?: Request): void {
    if (this.#closed || this.#reason !== undefined) return;
    if (this.#drained !== undefined) {
      this.close();
      return;
    }
    this.#reason = reason;
    this.counts.away++;
    this.#options.changed(reason);
    this.#endWaits();
    this.#probeLater(request);
  }

  /** Accepts no more requests. Closes and resolves when each pending request has been answered or has timed out. */
  drain(): Promise<void> {
    this.#drained ??= Promise.withResolvers<void>();
    if (this.#closed) this.#drained.resolve();
    if (this.#reason !== undefined || this.#inFlight === 0) this.close();
    return this.#drained.promise;
  }

  /** Ends all waits. Accepts no more requests. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopProbe?.();
    this.#endWaits();
    this.#channel.close();
    this.#drained?.resolve();
  }

  /** A request has come to its end. */
  #ended(): void {
    this.#inFlight--;
    // After the reply has been handed on.
    if (this.#drained !== undefined && this.#inFlight === 0) setImmediate(() => this.close());
  }

  /** Sets the alarm for the time limit of the request that waits longest. */
  #watch(until: number): void {
    const { clock } = this.#options;
    this.#stopAlarm = clock.alarm(Math.max(0, until - clock.now()), () => {
      // Reads replies first that arrived while this process was busy.
      const soon = setImmediate(() => this.#checkLimits());
      this.#stopAlarm = () => clearImmediate(soon);
    });
  }

  #checkLimits(): void {
    this.#stopAlarm = undefined;
    const oldest = this.#oldest();
    if (oldest === undefined) return;
    const { clock, timeoutMs } = this.#options;
    if (oldest.until > clock.now()) this.#watch(oldest.until);
    else this.trip(`no reply within ${timeoutMs} ms`, oldest.request);
  }

  /** The request that waits longest. Forgets those before it. */
  #oldest(): WaitingRequest<Request, Reply> | undefined {
    let first = this.#waiting[this.#firstOpen];
    while (first !== undefined && first.answered === undefined)
      first = this.#waiting[++this.#firstOpen];
    this.#waiting.splice(0, this.#firstOpen);
    this.#firstOpen = 0;
    return first;
  }

  #endWaits(): void {
    this.#stopAlarm?.();
    this.#stopAlarm = undefined;
    const ended = this.#waiting;
    this.#waiting = [];
    this.#firstOpen = 0;
    for (const waiting of ended) {
      if (waiting.answered !== undefined) this.counts.failed++;
      settle(waiting, undefined);
    }
  }

  #probeLater(request: Request | undefined): void {
    const { clock, probeMs } = this.#options;
    this.#stopProbe = clock.alarm(probeMs, () => this.#probe(request));
  }

  /** Probes the server that is responsible for the request that failed. */
  #probe(request: Request | undefined): void {
    const { clock, timeoutMs, changed, reasonChanged } = this.#options;
    let over = false;
    const end = (reason: string | undefined) => {
      if (over || this.#closed) return;
      over = true;
      stop();
      const isNew = reason !== this.#reason;
      this.#reason = reason;
      if (reason !== undefined) {
        if (isNew) reasonChanged?.(reason);
        this.#probeLater(request);
      } else {
        this.counts.back++;
        changed(undefined);
      }
    };
    const stop = clock.alarm(timeoutMs, () => {
      this.#channel.reset();
      end(`no reply within ${timeoutMs} ms`);
    });
    this.#stopProbe = stop;
    this.#channel.probe(request).then(
      () => end(undefined),
      (thrown: unknown) => end(systemErrorText(thrown)),
    );
  }
}
