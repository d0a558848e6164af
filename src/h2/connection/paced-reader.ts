// Passes the bytes of a socket to its connection, as many in each turn of the event loop as the scheduler allows. A queued
// connection is still read, within limits: the age of its bytes shows whether the process keeps up, and the age of bytes
// in the system's buffers is unknown.

import type { Socket } from "node:net";
import { MAX_READ_AHEAD, NEW_CONNECTION_FRAMES, READ_AHEAD_PER_CHUNK } from "../limits.ts";
import type { PooledBytes } from "../read-buffers.ts";
import type { QueuedReader, ReadScheduler } from "../read-scheduler.ts";
import type { Connection } from "./connection.ts";

/** A queued read. */
interface QueuedRead {
  readonly bytes: PooledBytes;
  readonly since: number;
}

export class PacedReader implements QueuedReader {
  readonly #socket: Socket;
  readonly #connection: Connection;
  readonly #scheduler: ReadScheduler;
  readonly #spend: (frames: number) => boolean;
  /** Reads that are not handled. While there are any, the connection is queued. */
  #queued: QueuedRead[] = [];
  /** Handled bytes of the first read. */
  #at = 0;
  #bytes = 0;
  /** The peer has closed its half behind the queued bytes. */
  #ended = false;

  constructor(socket: Socket, connection: Connection, scheduler: ReadScheduler) {
    this.#socket = socket;
    this.#connection = connection;
    this.#scheduler = scheduler;
    this.#spend = (frames) => scheduler.spend(frames);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("end", () => this.#end());
    socket.once("close", () => this.#forget());
  }

  get since(): number {
    return this.#queued[0]?.since ?? this.#scheduler.now();
  }

  work(): boolean {
    for (let read = this.#queued[0]; read !== undefined; read = this.#queued[0]) {
      const { bytes } = read;
      this.#at += this.#connection.read(bytes.copy(this.#at), 0, this.#spend);
      if (this.#at < bytes.length) return true;
      this.#at = 0;
      this.#queued.shift();
      bytes.release();
      this.#count(-bytes.length - READ_AHEAD_PER_CHUNK);
      this.resume();
      if (this.#queued.length > 0 && !this.#scheduler.mayContinue) return true;
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
    const roomForAll = this.#scheduler.countReadAhead(0);
    if (this.#bytes === 0 || (roomForAll && this.#bytes <= MAX_READ_AHEAD / 2)) socket.resume();
  }

  #receive(chunk: Buffer): void {
    if (this.#queued.length === 0) {
      const at = this.#scheduler.startSlice() ? this.#connection.read(chunk, 0, this.#spend) : 0;
      if (at < chunk.length) {
        this.#connection.awaitsTurn = true;
        this.#scheduler.enqueue(this, this.#connection.framesRead < NEW_CONNECTION_FRAMES);
        this.#enqueue(chunk.subarray(at));
      }
    } else this.#enqueue(chunk);
    // Do not read from a peer that does not read our replies.
    if (this.#socket.writableNeedDrain) this.#socket.pause();
  }

  #enqueue(chunk: Buffer): void {
    this.#queued.push({
      bytes: this.#scheduler.buffers.store(chunk),
      since: this.#scheduler.now(),
    });
    const roomForAll = this.#count(chunk.length + READ_AHEAD_PER_CHUNK);
    if (!roomForAll || this.#bytes >= MAX_READ_AHEAD) this.#socket.pause();
  }

  /** Returns whether all connections together may read more. */
  #count(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#scheduler.countReadAhead(bytes);
  }

  #end(): void {
    if (this.#queued.length === 0) this.#socket.end();
    else this.#ended = true;
  }

  /** Drops everything held, because the connection is closed. */
  #forget(): void {
    for (const { bytes } of this.#queued) bytes.release();
    this.#queued = [];
    this.#count(-this.#bytes);
  }
}
