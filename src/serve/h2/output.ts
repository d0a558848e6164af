// Gathers what one connection sends within a turn of the event loop, so that it leaves in one write.

import type { Duplex } from "node:stream";
import { MAX_TURN, MAX_UNTAKEN } from "./limits.ts";

const CHUNK = 64 * 1024;
/** Chunks that wait to be used again; more at once are rare and are left to the collector. */
const KEPT = 16;

/** Chunks that all connections of a transport use in turn: an idle connection owns none. */
export class Chunks {
  readonly #free: Buffer[] = [];

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(CHUNK);
  }

  giveBack(chunk: Buffer): void {
    if (this.#free.length < KEPT) this.#free.push(chunk);
  }
}

/** A chunk that the socket still reads from, until it has taken so many bytes in all. */
interface Lent {
  readonly chunk: Buffer;
  readonly until: number;
}

export class Output {
  readonly #socket: Duplex;
  readonly #chunks: Chunks;
  readonly #wake: () => void;
  #chunk: Buffer | undefined;
  #end = 0;
  #given = 0;
  #lent: Lent[] | undefined;
  /** Flushed in this turn. */
  #turn = 0;
  /** Whatever can wait does: the peer does not take what it was sent, or this turn has sent enough. */
  choked = false;

  /** `wake` is called when there is something to flush that was not before. */
  constructor(socket: Duplex, chunks: Chunks, wake: () => void) {
    this.#socket = socket;
    this.#chunks = chunks;
    this.#wake = wake;
  }

  /** Bytes of which `size` (at most 64 KiB) may be written from `at` on; `wrote` says how far that went. */
  room(size: number): Buffer {
    let chunk = this.#chunk;
    if (chunk !== undefined && this.#end + size > CHUNK) {
      this.flush();
      chunk = undefined;
    }
    if (chunk === undefined) {
      chunk = this.#chunks.take();
      this.#chunk = chunk;
      this.#end = 0;
      this.#wake();
    }
    return chunk;
  }

  get at(): number {
    return this.#end;
  }

  wrote(end: number): void {
    this.#end = end;
  }

  /** Bytes that the socket was given so far. */
  get given(): number {
    return this.#given;
  }

  /** Bytes that the system has taken so far: what shows whether the peer reads. */
  get taken(): number {
    return this.#given - this.#socket.writableLength;
  }

  /** The end of a turn. Returns whether what was choked may go on. */
  rest(): boolean {
    this.flush();
    this.takeBack();
    this.#turn = 0;
    if (!this.choked || this.#socket.writableLength > MAX_UNTAKEN || !this.#socket.writable) {
      return false;
    }
    this.choked = false;
    return true;
  }

  flush(): void {
    const chunk = this.#chunk;
    if (chunk === undefined) return;
    this.#chunk = undefined;
    const socket = this.#socket;
    if (this.#end === 0 || !socket.writable) {
      // Nobody is there to take anything: whoever would write on waits until that has been noticed.
      if (!socket.writable) this.choked = true;
      this.#chunks.giveBack(chunk);
      return;
    }
    this.#given += this.#end;
    this.#turn += this.#end;
    if (this.#turn > MAX_TURN) this.choked = true;
    // Behind what waits, little is copied: else each small frame to a peer that does not read would keep a chunk.
    if (socket.writableLength > 0 && this.#end < CHUNK / 2) {
      // Not of Node's pool: a few bytes that wait would keep 64 KiB of it.
      const copy = Buffer.allocUnsafeSlow(this.#end);
      chunk.copy(copy, 0, 0, this.#end);
      socket.write(copy);
      this.#chunks.giveBack(chunk);
      if (socket.writableLength > MAX_UNTAKEN) this.choked = true;
      return;
    }
    socket.write(chunk.subarray(0, this.#end));
    const waiting = socket.writableLength;
    // Nothing waits: the system has taken every byte, and the memory is free again.
    if (waiting === 0) this.#chunks.giveBack(chunk);
    else this.#lend(chunk, waiting);
  }

  #lend(chunk: Buffer, waiting: number): void {
    if (waiting > MAX_UNTAKEN) this.choked = true;
    this.takeBack();
    this.#lent ??= [];
    this.#lent.push({ chunk, until: this.#given });
  }

  /** Chunks that the system has taken whole are free again. */
  takeBack(): void {
    const lent = this.#lent;
    if (lent === undefined) return;
    const { taken } = this;
    for (let first = lent[0]; first !== undefined && first.until <= taken; first = lent[0]) {
      this.#chunks.giveBack(first.chunk);
      lent.shift();
    }
    if (lent.length === 0) this.#lent = undefined;
  }
}
