// Replies that leave something taken, until the peer has confirmed them. A PING follows them, and its acknowledgement
// confirms them: a peer handles frames in order (RFC 9113 §6.7), so until then it may reset a call whose reply it has
// not taken, although the reply was sent. Only such replies are recorded; all others are forgotten once sent.

import type { Held } from "#base/handler.ts";
import { MAX_UNCONFIRMED_REPLIES } from "../limits.ts";

/** Counts the memory of what is recorded. */
interface Memory {
  reserve(bytes: number): boolean;
  release(bytes: number): void;
}

export class UnconfirmedReplies {
  readonly #memory: Memory;
  /** Replies by stream: those before the PING that was sent last, and those after it. */
  #before = new Map<number, Held>();
  #after = new Map<number, Held>();
  #pinged = false;

  constructor(memory: Memory) {
    this.#memory = memory;
  }

  /** Adds a reply that was sent completely. Beyond the limits, the oldest ones count as confirmed. */
  add(stream: number, held: Held): void {
    if (this.#before.size + this.#after.size >= MAX_UNCONFIRMED_REPLIES) this.#dropOldest();
    if (this.#memory.reserve(held.size)) this.#after.set(stream, held);
  }

  /** Whether a PING must be sent now. It confirms everything that was added so far. */
  takePing(): boolean {
    if (this.#pinged || this.#after.size === 0) return false;
    this.#pinged = true;
    [this.#before, this.#after] = [this.#after, this.#before];
    return true;
  }

  /** The peer has acknowledged the PING. */
  acknowledged(): void {
    this.#pinged = false;
    this.#forget(this.#before);
  }

  /** The peer has reset a stream: it did not take the reply if it had not confirmed it. */
  reset(stream: number): void {
    const all = this.#before.has(stream) ? this.#before : this.#after;
    const held = all.get(stream);
    if (held === undefined) return;
    all.delete(stream);
    this.#memory.release(held.size);
    held.release();
  }

  /** The connection is gone: its peer took none of them. */
  lost(): void {
    for (const all of [this.#before, this.#after]) {
      const lost = [...all.values()];
      this.#forget(all);
      for (const held of lost) held.release();
    }
  }

  /** The connection ends as it should, after the peer has been sent all of them. */
  confirmAll(): void {
    this.#forget(this.#before);
    this.#forget(this.#after);
  }

  #dropOldest(): void {
    const all = this.#before.size > 0 ? this.#before : this.#after;
    for (const [stream, held] of all) {
      all.delete(stream);
      this.#memory.release(held.size);
      return;
    }
  }

  #forget(all: Map<number, Held>): void {
    for (const held of all.values()) this.#memory.release(held.size);
    all.clear();
  }
}
