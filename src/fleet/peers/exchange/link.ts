// The way to one other agent of the group: the takes of one turn of the event loop travel in one message, and hand-overs
// arrive in order, each once.

import type { Clock } from "#base/clock.ts";
import { type Asker, type Channel, Requests, type RequestsOptions } from "../../requests.ts";
import type { RingMember } from "../membership/ring.ts";
import {
  type Bucket,
  type Purpose,
  readReplies,
  type Take,
  type TakeReply,
  writeStore,
  writeTakes,
} from "./messages.ts";

/** Calls of one agent. Promises are rejected with a Fault when there is no reply in time. */
export interface Caller {
  call(method: "Take" | "Store", message: Uint8Array): Promise<Uint8Array>;
  close(): void;
}

export interface LinkOptions extends RequestsOptions {
  readonly member: RingMember;
  /** Process id of this agent. */
  readonly from: string;
  readonly caller: Caller;
  /** Numbers the messages of this agent: each larger than all before, also over earlier links. */
  readonly number: () => number;
}

/** Buckets of one message. */
const PAGE = 5_000;
/** Milliseconds before what could not be handed over is sent again. */
const RETRY_MS = 100;

interface Page {
  readonly number: number;
  readonly purpose: Purpose;
  readonly last: boolean;
  readonly buckets: readonly Bucket[];
  readonly done: (delivered: boolean) => void;
}

interface Waiting {
  readonly take: Take;
  readonly asker: Asker<TakeReply>;
}

export class Link implements Channel<Take, undefined, TakeReply> {
  readonly member: RingMember;
  readonly requests: Requests<Take, undefined, TakeReply>;
  readonly #caller: Caller;
  readonly #from: string;
  readonly #nextNumber: () => number;
  readonly #clock: Clock;
  #batch: Waiting[] = [];
  #pages: Page[] = [];
  #sending = false;
  #closed = false;
  #disarm: (() => void) | undefined;

  constructor(options: LinkOptions) {
    this.member = options.member;
    this.#caller = options.caller;
    this.#from = options.from;
    this.#nextNumber = options.number;
    this.#clock = options.clock;
    this.requests = new Requests(this, options);
  }

  run(take: Take, _key: string, _args: undefined, asker: Asker<TakeReply>): void {
    this.#batch.push({ take, asker });
    if (this.#batch.length === 1) setImmediate(() => void this.#flush());
  }

  async probe(): Promise<void> {
    await this.#caller.call("Take", writeTakes([]));
  }

  reset(): void {
    // The client connects again by itself.
  }

  /**
   * Sends buckets, and resolves with those that were not delivered: what had not arrived when this was closed, and copies
   * whose message failed. Everything else is sent again until it arrives.
   */
  async store(
    purpose: Purpose,
    buckets: readonly Bucket[],
    last: boolean,
  ): Promise<readonly Bucket[]> {
    if (this.#closed) return buckets;
    const pages: Promise<readonly Bucket[]>[] = [];
    for (let at = 0; at === 0 || at < buckets.length; at += PAGE) {
      const part = buckets.slice(at, at + PAGE);
      const done = Promise.withResolvers<boolean>();
      this.#pages.push({
        number: this.#nextNumber(),
        purpose,
        last: last && at + PAGE >= buckets.length,
        buckets: part,
        done: done.resolve,
      });
      pages.push(done.promise.then((delivered) => (delivered ? [] : part)));
    }
    if (!this.#sending) void this.#send();
    return (await Promise.all(pages)).flat();
  }

  /** Ends all waits. What was not handed over goes back to its sender. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#disarm?.();
    this.requests.close();
    this.#caller.close();
    for (const { done } of this.#pages) done(false);
    this.#pages = [];
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    let replies: readonly (TakeReply | undefined)[];
    try {
      const takes = batch.map(({ take }) => take);
      replies = readReplies(takes, await this.#caller.call("Take", writeTakes(takes)));
    } catch (thrown) {
      for (const { asker } of batch) asker.failed(thrown);
      return;
    }
    for (const [at, { asker }] of batch.entries()) {
      const reply = replies[at];
      if (reply === undefined) asker.failed(new Error("fewer replies than requests"));
      else asker.replied(reply);
    }
  }

  async #send(): Promise<void> {
    this.#sending = true;
    for (let page = this.#pages[0]; page !== undefined; page = this.#pages[0]) {
      try {
        await this.#caller.call("Store", writeStore({ ...page, from: this.#from }));
      } catch {
        if (this.#closed) break;
        if (page.purpose !== "copy") {
          await this.#pause();
          continue;
        }
        this.#settle(page, false);
        continue;
      }
      this.#settle(page, true);
    }
    this.#sending = false;
  }

  #settle(page: Page, delivered: boolean): void {
    if (this.#pages[0] === page) this.#pages.shift();
    page.done(delivered);
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const disarm = this.#clock.alarm(RETRY_MS, resolve);
      this.#disarm = () => {
        disarm();
        resolve();
      };
    });
  }
}
