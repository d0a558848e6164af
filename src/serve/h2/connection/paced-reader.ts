// Hands the bytes that a socket has read to its connection, as many in each turn of the event loop as the connection
// may handle. Until the rest is handled, nothing more is read.

import type { Socket } from "node:net";
import { FRAMES_OF_NEW_CONNECTION } from "../../transport/limits.ts";
import type { Turns, Waiting } from "../../transport/turns.ts";
import type { Connection } from "./connection.ts";

export class PacedReader implements Waiting {
  readonly #socket: Socket;
  readonly #connection: Connection;
  readonly #turns: Turns;
  /** Bytes that were read and, from `#at` on, not handled. While there are some, the connection waits in line. */
  #rest: Buffer | undefined;
  #at = 0;

  constructor(socket: Socket, connection: Connection, turns: Turns) {
    this.#socket = socket;
    this.#connection = connection;
    this.#turns = turns;
  }

  receive(chunk: Buffer): void {
    const most = this.#turns.allowance;
    const at = most === 0 ? 0 : this.#read(chunk, 0, most);
    if (at < chunk.length) {
      this.#rest = chunk;
      this.#at = at;
      this.#connection.awaitsTurn = true;
      this.#turns.wait(this, this.#connection.framesRead < FRAMES_OF_NEW_CONNECTION);
      this.#socket.pause();
    }
    // Do not read from a peer that does not read our replies.
    else if (this.#socket.writableNeedDrain) this.#socket.pause();
  }

  work(most: number): boolean {
    const rest = this.#rest;
    if (rest === undefined) return false;
    this.#at = this.#read(rest, this.#at, most);
    if (this.#at < rest.length) return true;
    this.#rest = undefined;
    this.#connection.awaitsTurn = false;
    this.resume();
    return false;
  }

  /** Reads on unless something still has to be handled, or the peer has to read first. */
  resume(): void {
    if (this.#rest === undefined && !this.#socket.writableNeedDrain) this.#socket.resume();
  }

  /** Returns the offset of the first byte that was not handled. */
  #read(chunk: Buffer, from: number, most: number): number {
    const connection = this.#connection;
    const before = connection.framesRead;
    const at = connection.read(chunk, from, most);
    this.#turns.spend(connection.framesRead - before);
    return at;
  }
}
