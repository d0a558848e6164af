// The link to one other agent of the group. One message carries the takes of one turn of the event loop; hand-overs arrive in
// order, each once.

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
  /** Numbers the messages of this agent: each larger than all before, also over earlier links. */
  readonly number: () => number;
  /** Slices in which the hand-overs of all links are written. */
  readonly slices: Pick<Slices, "turn">;
}

/** Buckets and slots of one message. */
const PAGE = 5_000;
/** Milliseconds before a hand-over that failed is sent again: at first, and at most. Each failure doubles them. */
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
  /** Undefined when this turn has none yet. */
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
   * Sends buckets and slots, and resolves with those that were not delivered: what had not arrived when this was closed,
   * and copies whose message failed. Everything else is sent again until it arrives.
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

  /** Ends all waits. What was not handed over goes back to its sender. */
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
      // A change of members makes messages to many agents at once.
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
