// Finds out whether a caller over HTTP/1.1 has taken the replies that hold slots. HTTP/1.1 has no acknowledgement, but
// the system reports one: a caller that closes without having read a reply resets the connection, and a caller that has
// read it closes in order.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Held } from "#base/handler.ts";
import { type ReplyMemory, UnconfirmedReplies } from "#h2/unconfirmed-replies.ts";
import { NO_BODY } from "../body.ts";

/** Memory of unconfirmed replies over HTTP/1.1, for all connections together. HTTP/2 counts them as buffered bytes. */
export const MAX_UNCONFIRMED_BYTES = 16 * 1024 * 1024;
/** Time for the reset of a caller on another machine to arrive after it has closed its side. */
const RESET_WITHIN_MS = 250;

export class SharedReplyMemory implements ReplyMemory {
  #reserved = 0;

  reserve(bytes: number): boolean {
    if (this.#reserved + bytes > MAX_UNCONFIRMED_BYTES) return false;
    this.#reserved += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#reserved -= bytes;
  }
}

interface ConfirmationContext {
  readonly clock: Clock;
  readonly replyMemory: ReplyMemory;
}

/** For one connection. Created with its first reply that holds a slot. */
export class ReplyConfirmation {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #unconfirmed: UnconfirmedReplies;
  #nextId = 0;
  /** Bytes read from the connection when the newest reply was sent. */
  #readBefore = 0;
  /** A reply was made that the connection could not carry any more. */
  #unsent = false;

  constructor(socket: Socket, { clock, replyMemory }: ConfirmationContext) {
    this.#socket = socket;
    this.#clock = clock;
    this.#unconfirmed = new UnconfirmedReplies(replyMemory);
    socket.once("close", (failed: boolean) => {
      if (failed || this.#unsent) this.#unconfirmed.lostAll();
      else this.#unconfirmed.confirmAll();
    });
    // Before other listeners end the connection: afterwards the system does not report a reset.
    socket.prependListener("end", () => this.#askForReset());
    const { destroySoon } = socket;
    socket.destroySoon = () => {
      this.#askForReset();
      destroySoon.call(socket);
    };
  }

  /** Releases `held` unless the caller takes the next reply. */
  add(held: Held): void {
    this.#unconfirmed.add(this.#nextId++, held);
    this.#readBefore = this.#socket.bytesRead;
    if (!this.#socket.writable) this.#unsent = true;
  }

  /** A request has arrived. If it was sent after the replies, their caller has taken them. */
  requestArrived(): void {
    if (this.#socket.bytesRead > this.#readBefore) this.#unconfirmed.confirmAll();
  }

  /** Calls `close` after the time in which a reset would arrive from a caller that has closed its side. */
  whenEnded(close: () => void): void {
    if (this.#unconfirmed.isEmpty) {
      close();
      return;
    }
    const cancel = this.#clock.alarm(RESET_WITHIN_MS, close);
    this.#socket.once("close", cancel);
  }

  /**
   * Makes the socket fail if its peer has reset it. The end of the stream hides a later reset from reads, but a write
   * reports it, even of no bytes.
   */
  #askForReset(): void {
    if (!this.#unconfirmed.isEmpty && this.#socket.writable) this.#socket.write(NO_BODY);
  }
}
