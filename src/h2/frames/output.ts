// Collects the output of one connection during a turn of the event loop, so that it leaves in one write.

import type { Duplex } from "node:stream";
import { MAX_BYTES_PER_TURN, MAX_SOCKET_BACKLOG } from "../limits.ts";

const CHUNK_SIZE = 64 * 1024;
/** Free chunks that are kept; more are rarely free at once. */
const MAX_POOLED_CHUNKS = 16;

/** Chunks that the connections of a transport share: an idle connection owns none. */
export class ChunkPool {
  readonly #free: Buffer[] = [];

  acquire(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(CHUNK_SIZE);
  }

  release(chunk: Buffer): void {
    if (this.#free.length < MAX_POOLED_CHUNKS) this.#free.push(chunk);
  }
}

/** A chunk that the socket still reads from, and the number of accepted bytes after which it no longer does. */
interface LentChunk {
  readonly chunk: Buffer;
  readonly acceptedAt: number;
}

export class Output {
  readonly #socket: Duplex;
  readonly #pool: ChunkPool;
  readonly #scheduleFlush: () => void;
  #chunk: Buffer | undefined;
  #end = 0;
  #bytesWritten = 0;
  #lent: LentChunk[] | undefined;
  /** Bytes flushed in this turn. */
  #turnBytes = 0;
  /** Senders must wait: the peer does not read, or this turn has sent enough. */
  congested = false;

  /** `scheduleFlush` is called when output becomes pending. */
  constructor(socket: Duplex, chunks: ChunkPool, scheduleFlush: () => void) {
    this.#socket = socket;
    this.#pool = chunks;
    this.#scheduleFlush = scheduleFlush;
  }

  /**
   * Returns memory of which `size` bytes (at most 64 KiB) may be written from `position` on; `advance` commits them.
   */
  allocate(size: number): Buffer {
    let chunk = this.#chunk;
    if (chunk !== undefined && this.#end + size > CHUNK_SIZE) {
      this.flush();
      chunk = undefined;
    }
    if (chunk === undefined) {
      chunk = this.#pool.acquire();
      this.#chunk = chunk;
      this.#end = 0;
      this.#scheduleFlush();
    }
    return chunk;
  }

  get position(): number {
    return this.#end;
  }

  advance(end: number): void {
    this.#end = end;
  }

  /** Total bytes written to the socket. */
  get bytesWritten(): number {
    return this.#bytesWritten;
  }

  /** Total bytes that the operating system has accepted: they show whether the peer reads. */
  get bytesAccepted(): number {
    return this.#bytesWritten - this.#socket.writableLength;
  }

  /** Ends a turn. Returns whether waiting senders may continue. */
  endTurn(): boolean {
    this.flush();
    this.reclaimChunks();
    this.#turnBytes = 0;
    if (
      !this.congested ||
      this.#socket.writableLength > MAX_SOCKET_BACKLOG ||
      !this.#socket.writable
    ) {
      return false;
    }
    this.congested = false;
    return true;
  }

  flush(): void {
    const chunk = this.#chunk;
    if (chunk === undefined) return;
    this.#chunk = undefined;
    const socket = this.#socket;
    if (this.#end === 0 || !socket.writable) {
      // The socket is gone: senders wait until its end has been handled.
      if (!socket.writable) this.congested = true;
      this.#pool.release(chunk);
      return;
    }
    this.#bytesWritten += this.#end;
    this.#turnBytes += this.#end;
    if (this.#turnBytes > MAX_BYTES_PER_TURN) this.congested = true;
    // Behind a backlog, small output is copied. Otherwise each small frame to a peer that does not read would keep a
    // chunk.
    if (socket.writableLength > 0 && this.#end < CHUNK_SIZE / 2) {
      // Not from Node's pool, where a few waiting bytes would keep 64 KiB.
      const copy = Buffer.allocUnsafeSlow(this.#end);
      chunk.copy(copy, 0, 0, this.#end);
      socket.write(copy);
      this.#pool.release(chunk);
      if (socket.writableLength > MAX_SOCKET_BACKLOG) this.congested = true;
      return;
    }
    socket.write(chunk.subarray(0, this.#end));
    const waiting = socket.writableLength;
    // The system has accepted every byte: the memory is free again.
    if (waiting === 0) this.#pool.release(chunk);
    else this.#lend(chunk, waiting);
  }

  #lend(chunk: Buffer, waiting: number): void {
    if (waiting > MAX_SOCKET_BACKLOG) this.congested = true;
    this.reclaimChunks();
    this.#lent ??= [];
    this.#lent.push({ chunk, acceptedAt: this.#bytesWritten });
  }

  /** Returns chunks to the pool once the system has accepted all of their bytes. */
  reclaimChunks(): void {
    const lent = this.#lent;
    if (lent === undefined) return;
    const { bytesAccepted } = this;
    for (
      let first = lent[0];
      first !== undefined && first.acceptedAt <= bytesAccepted;
      first = lent[0]
    ) {
      this.#pool.release(first.chunk);
      lent.shift();
    }
    if (lent.length === 0) this.#lent = undefined;
  }
}
