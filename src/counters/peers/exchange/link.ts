// The link to one other agent of the group. One message carries the takes of one turn of the event loop. Hand-overs arrive
// in order and exactly once.

import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { Slices } from "#runtime/life/slices.ts";
import {
  type Channel,
  type ReplyReceiver,
  Requests,
  type RequestsOptions,
  receiveAll,
} from "../../requests.ts";
import type { RingMember } from "../membership/ring.ts";
import { readReplies, type Take, type TakeReply, writeTakes } from "./messages.ts";
import { type Purpose, type Transfer, writeStore } from "./transfers.ts";

/** Calls of one agent. Promises are rejected with a Fault when there is no reply in time. */
export interface Caller {
  call(method: "Take" | "Store", message: Uint8Array): Promise<Uint8Array>;
  close(): void;
}

interface LinkOptions extends RequestsOptions {
  readonly member: RingMember;
  /** Process id of this agent. */
  readonly from: string;
  readonly caller: Caller;
  /** Returns increasing numbers for the messages of this agent, across all of its links. */
  readonly number: () => number;
  /** Slices in which the hand-overs of all links are written. */
  readonly slices: Pick<Slices, "turn">;
}

/** Most buckets and slots in one message. */
const PAGE = 5_000;
/** First and longest pause before a failed hand-over is sent again, ms. Each failure doubles the pause. */
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 1_000;

interface Page {
  readonly number: number;
  readonly purpose: Purpose;
  readonly last: boolean;
  readonly moved: readonly Transfer[];
  readonly done: (delivered: boolean) => void;
}

/** The takes of one turn, and the receiver of each reply. */
interface Batch {
  readonly takes: Take[];
  readonly receivers: ReplyReceiver<TakeReply>[];
}

export class Link implements Channel<Take, TakeReply> {
  readonly member: RingMember;
  readonly requests: Requests<Take, TakeReply>;
  readonly #caller: Caller;
  readonly #from: string;
  readonly #nextNumber: () => number;
  readonly #clock: Clock;
  readonly #slices: Pick<Slices, "turn">;
  /** Undefined while this turn has no takes. */
  #batch: Batch | undefined;
  #pages: Page[] = [];
  #sending = false;
  readonly #closed = new AbortController();

  constructor(options: LinkOptions) {
    this.member = options.member;
    this.#caller = options.caller;
    this.#from = options.from;
    this.#nextNumber = options.number;
    this.#clock = options.clock;
    this.#slices = options.slices;
    this.requests = new Requests(this, options);
  }

  run(take: Take, receiver: ReplyReceiver<TakeReply>): void {
    if (this.#batch === undefined) {
      this.#batch = { takes: [], receivers: [] };
      setImmediate(() => this.#flush());
    }
    this.#batch.takes.push(take);
    this.#batch.receivers.push(receiver);
  }

  async probe(): Promise<void> {
    await this.#caller.call("Take", writeTakes([]));
  }

  reset(): void {
    // The client connects again by itself.
  }

  /**
   * Sends buckets and slots, and resolves with those that were not delivered: copies whose message failed, and whatever
   * had not arrived when the link was closed. Hand-overs are sent again until they arrive.
   */
  async store<M extends Transfer>(
    purpose: Purpose,
    moved: readonly M[],
    last: boolean,
  ): Promise<readonly M[]> {
    if (this.#closed.signal.aborted) return moved;
    const pages: Promise<readonly M[]>[] = [];
    for (let at = 0; at === 0 || at < moved.length; at += PAGE) {
      const part = moved.slice(at, at + PAGE);
      const done = Promise.withResolvers<boolean>();
      this.#pages.push({
        number: this.#nextNumber(),
        purpose,
        last: last && at + PAGE >= moved.length,
        moved: part,
        done: done.resolve,
      });
      pages.push(done.promise.then((delivered) => (delivered ? [] : part)));
    }
    if (!this.#sending) void this.#send();
    return (await Promise.all(pages)).flat();
  }

  /** Ends all waits. `store` resolves with what was not delivered. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.requests.close();
    this.#caller.close();
    for (const { done } of this.#pages) done(false);
    this.#pages = [];
  }

  #flush(): void {
    if (this.#batch === undefined) return;
    const { takes, receivers } = this.#batch;
    this.#batch = undefined;
    const call = () => this.#caller.call("Take", writeTakes(takes));
    void receiveAll(receivers, async () => readReplies(takes, await call()));
  }

  async #send(): Promise<void> {
    const { signal } = this.#closed;
    this.#sending = true;
    let retryMs = MIN_RETRY_MS;
    for (let page = this.#pages[0]; page !== undefined; page = this.#pages[0]) {
      // A change of members sends messages to many agents at once.
      if (page.purpose !== "copy") await this.#slices.turn();
      if (signal.aborted) break;
      try {
        await this.#caller.call("Store", writeStore({ ...page, from: this.#from }));
      } catch {
        if (signal.aborted) break;
        if (page.purpose !== "copy") {
          await pause(retryMs, this.#clock, signal);
          retryMs = Math.min(2 * retryMs, MAX_RETRY_MS);
          continue;
        }
        this.#settle(page, false);
        continue;
      }
      retryMs = MIN_RETRY_MS;
      this.#settle(page, true);
    }
    this.#sending = false;
  }

  #settle(page: Page, delivered: boolean): void {
    if (this.#pages[0] === page) this.#pages.shift();
    page.done(delivered);
  }
}
