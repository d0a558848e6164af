// Hands the bytes that a socket has read to its connection, as many in each turn of the event loop as the connection
// may handle. What has to wait is read all the same, within limits: its age shows whether the process keeps up. The age
// of bytes in the system's buffers is unknown.

import type { Socket } from "node:net";
import {
  FRAMES_OF_NEW_CONNECTION,
  MAX_READ_AHEAD,
  READ_AHEAD_PER_CHUNK,
  type Turns,
  type Waiting,
} from "../../turns.ts";
import type { WaitingBytes } from "../../waiting-bytes.ts";
import type { Connection } from "./connection.ts";

/** Bytes that wait, and the time since when. */
interface Held {
  readonly bytes: WaitingBytes;
  readonly since: number;
}

export class PacedReader implements Waiting {
  readonly #socket: Socket;
  readonly #connection: Connection;
  readonly #turns: Turns;
  readonly #spend: (frames: number) => boolean;
  /** Reads that are not handled yet. While there are some, the connection waits in line. */
  #held: Held[] = [];
  /** Bytes of the first read that were handled. */
  #at = 0;
  #bytes = 0;
  /** The peer has closed its half behind what is held. */
  #ended = false;

  constructor(socket: Socket, connection: Connection, turns: Turns) {
    this.#socket = socket;
    this.#connection = connection;
    this.#turns = turns;
    this.#spend = (frames) => turns.spend(frames);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("end", () => this.#end());
    socket.once("close", () => this.#forget());
  }

  get since(): number {
    return this.#held[0]?.since ?? this.#turns.now();
  }

  work(): boolean {
    for (let held = this.#held[0]; held !== undefined; held = this.#held[0]) {
      const { bytes } = held;
      this.#at += this.#connection.read(bytes.copy(this.#at), 0, this.#spend);
      if (this.#at < bytes.length) return true;
      this.#at = 0;
      this.#held.shift();
      bytes.release();
      this.#count(-bytes.length - READ_AHEAD_PER_CHUNK);
      this.resume();
      if (this.#held.length > 0 && !this.#turns.goesOn) return true;
    }
    this.#connection.awaitsTurn = false;
    this.resume();
    if (this.#ended) this.#socket.end();
    return false;
  }

  /** Reads on unless much waits already, or the peer has to read first. */
  resume(): void {
    const socket = this.#socket;
    if (!socket.isPaused() || socket.writableNeedDrain || !this.#connection.open) return;
    const roomForAll = this.#turns.hold(0);
    if (this.#bytes === 0 || (roomForAll && this.#bytes <= MAX_READ_AHEAD / 2)) socket.resume();
  }

  #receive(chunk: Buffer): void {
    if (this.#held.length === 0) {
      const at = this.#turns.enter() ? this.#connection.read(chunk, 0, this.#spend) : 0;
      if (at < chunk.length) {
        this.#connection.awaitsTurn = true;
        this.#turns.wait(this, this.#connection.framesRead < FRAMES_OF_NEW_CONNECTION);
        this.#hold(chunk.subarray(at));
      }
    } else this.#hold(chunk);
    // Do not read from a peer that does not read our replies.
    if (this.#socket.writableNeedDrain) this.#socket.pause();
  }

  #hold(chunk: Buffer): void {
    this.#held.push({ bytes: this.#turns.memory.store(chunk), since: this.#turns.now() });
    const roomForAll = this.#count(chunk.length + READ_AHEAD_PER_CHUNK);
    if (!roomForAll || this.#bytes >= MAX_READ_AHEAD) this.#socket.pause();
  }

  /** Returns whether all connections together may read more. */
  #count(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#turns.hold(bytes);
  }

  #end(): void {
    if (this.#held.length === 0) this.#socket.end();
    else this.#ended = true;
  }

  /** Drops everything held, because the connection is closed. */
  #forget(): void {
    for (const { bytes } of this.#held) bytes.release();
    this.#held = [];
    this.#count(-this.#bytes);
  }
}
