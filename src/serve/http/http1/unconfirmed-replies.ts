// Replies over HTTP/1.1 that leave something taken, until their caller has shown that it took them. HTTP/1.1 has no
// acknowledgement, but the system tells: a caller that closes without having read a reply resets the connection, and one
// that read it closes in order.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Held } from "#base/handler.ts";
import { NO_BODY } from "../body.ts";

/** Bytes that unconfirmed replies of the whole process hold; beyond it they count as taken. */
const MAX_UNCONFIRMED = 16 * 1024 * 1024;
/** Time for the reset of a caller on another machine, after it has closed its side. */
const RESET_WITHIN_MS = 250;

/** Counts the memory of all connections. */
interface Memory {
  readonly clock: Clock;
  unconfirmedBytes: number;
}

/** The unconfirmed replies of one connection. Created with the first of them. */
export class UnconfirmedReplies {
  readonly #socket: Socket;
  readonly #memory: Memory;
  #held: Held[] = [];
  /** Bytes that had been read from the connection when the newest reply was sent. */
  #readBefore = 0;

  constructor(socket: Socket, memory: Memory) {
    this.#socket = socket;
    this.#memory = memory;
    socket.once("close", (failed: boolean) => {
      const held = this.#clear();
      if (failed) for (const each of held) each.release();
    });
    // Before others end the connection in turn: afterwards the system no longer reports a reset.
    socket.prependListener("end", () => this.#askForReset());
    const { destroySoon } = socket;
    socket.destroySoon = () => {
      this.#askForReset();
      destroySoon.call(socket);
    };
  }

  add(held: Held): void {
    if (this.#memory.unconfirmedBytes + held.size > MAX_UNCONFIRMED) return;
    this.#memory.unconfirmedBytes += held.size;
    this.#held.push(held);
    this.#readBefore = this.#socket.bytesRead;
  }

  /** A request has arrived. If it was sent after the replies, their caller has taken them. */
  requestArrived(): void {
    if (this.#held.length > 0 && this.#socket.bytesRead > this.#readBefore) this.#clear();
  }

  /** Calls `close` when a reset would have arrived from a caller that has closed its side. */
  whenEnded(close: () => void): void {
    if (this.#held.length === 0) {
      close();
      return;
    }
    const cancel = this.#memory.clock.alarm(RESET_WITHIN_MS, close);
    this.#socket.once("close", cancel);
  }

  #clear(): readonly Held[] {
    const held = this.#held;
    this.#held = [];
    for (const { size } of held) this.#memory.unconfirmedBytes -= size;
    return held;
  }

  /**
   * Makes the socket fail if its peer has reset it. The end of the stream hides a later reset from reads, but even a write
   * of no bytes reports it.
   */
  #askForReset(): void {
    if (this.#held.length > 0 && this.#socket.writable) this.#socket.write(NO_BODY);
  }
}
