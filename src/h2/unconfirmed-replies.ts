// The replies of one connection that hold a slot (`Held`) and that its peer has not confirmed. All other replies are
// forgotten once sent. Each protocol has its own way to confirm replies.

import type { Held } from "#base/handler.ts";
import { MAX_UNCONFIRMED_REPLIES } from "./limits.ts";

/** Counts the memory of the replies of one or of several connections. */
export interface ReplyMemory {
  /** Returns false, and reserves nothing, beyond the limit. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

export class UnconfirmedReplies {
  readonly #memory: ReplyMemory;
  /** Replies by id: those that the expected confirmation covers, and those sent after it was asked for. */
  #asked = new Map<number, Held>();
  #added = new Map<number, Held>();
  #asking = false;

  constructor(memory: ReplyMemory) {
    this.#memory = memory;
  }

  get isEmpty(): boolean {
    return this.#asked.size + this.#added.size === 0;
  }

  /**
   * Adds a reply that was sent completely. Beyond the limit, the oldest counts as confirmed; a reply for which there is
   * no memory counts as confirmed at once.
   */
  add(id: number, held: Held): void {
    if (this.#asked.size + this.#added.size >= MAX_UNCONFIRMED_REPLIES) this.#forgetOldest();
    if (this.#memory.reserve(held.size)) this.#added.set(id, held);
  }

  /**
   * Returns true if the peer must be asked now to confirm everything added so far; false if there is nothing new, or if
   * it has not answered the last question.
   */
  ask(): boolean {
    if (this.#asking || this.#added.size === 0) return false;
    this.#asking = true;
    [this.#asked, this.#added] = [this.#added, this.#asked];
    return true;
  }

  /** The peer has answered the question. */
  confirmAsked(): void {
    this.#asking = false;
    this.#forget(this.#asked);
  }

  /** The peer has taken all of them. */
  confirmAll(): void {
    this.#forget(this.#asked);
    this.#forget(this.#added);
  }

  /** The peer did not take this reply, unless it has confirmed it: releases its slot. */
  lost(id: number): void {
    const all = this.#asked.has(id) ? this.#asked : this.#added;
    const held = all.get(id);
    if (held === undefined) return;
    all.delete(id);
    this.#memory.release(held.size);
    held.release();
  }

  /** The peer took none of them: releases their slots. */
  lostAll(): void {
    for (const all of [this.#asked, this.#added]) {
      const lost = [...all.values()];
      this.#forget(all);
      for (const held of lost) held.release();
    }
  }

  #forgetOldest(): void {
    const all = this.#asked.size > 0 ? this.#asked : this.#added;
    for (const [id, held] of all) {
      all.delete(id);
      this.#memory.release(held.size);
      return;
    }
  }

  #forget(all: Map<number, Held>): void {
    for (const held of all.values()) this.#memory.release(held.size);
    all.clear();
  }
}
