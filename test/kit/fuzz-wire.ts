// The wire of a fuzzed connection: a socket in memory whose other end is a function, and the cutting of bytes into
// frames, the same for both directions.

import { Duplex } from "node:stream";

type Done = (error?: Error | null) => void;

/** What the server sees of a connection. It looks like a socket of a peer on this machine. */
export class MemorySocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  /** The server will write no more. */
  finished = false;
  readonly #heard: (bytes: Buffer) => void;
  #deaf = false;
  #kept: { readonly bytes: Buffer; readonly done: Done } | undefined;

  /** `heard` gets what the server writes; the memory is only its until it returns. */
  constructor(heard: (bytes: Buffer) => void) {
    super();
    this.#heard = heard;
  }

  /** Nothing is taken from the server until this is false again. */
  set deaf(deaf: boolean) {
    this.#deaf = deaf;
    const kept = this.#kept;
    if (deaf || kept === undefined) return;
    this.#kept = undefined;
    this.#heard(kept.bytes);
    kept.done();
  }

  override _read(): void {}

  override _write(bytes: Buffer, _: BufferEncoding, done: Done): void {
    if (this.#deaf) {
      this.#kept = { bytes, done };
      return;
    }
    this.#heard(bytes);
    done();
  }

  override _final(done: Done): void {
    this.finished = true;
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#kept = undefined;
    done(error);
  }
}

/** Gets whole frames; the payload's memory is only its until it returns. */
export type FrameTaker = (type: number, flags: number, stream: number, payload: Buffer) => void;

const HEAD = 9;
const NOTHING: Buffer = Buffer.alloc(0);

export class Cutter {
  readonly #taker: FrameTaker;
  readonly #most: number;
  #rest: Buffer = NOTHING;
  /** A frame was longer than any may be: nothing behind it can be cut. */
  lost = false;

  constructor(taker: FrameTaker, most: number) {
    this.#taker = taker;
    this.#most = most;
  }

  /** Bytes that would complete the frame at hand; 0 between frames. */
  get missing(): number {
    const rest = this.#rest;
    if (rest.length === 0) return 0;
    if (rest.length < HEAD) return HEAD - rest.length;
    return HEAD + rest.readUIntBE(0, 3) - rest.length;
  }

  push(chunk: Buffer): void {
    if (this.lost) return;
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= HEAD) {
      const length = bytes.readUIntBE(at, 3);
      if (length > this.#most) {
        this.lost = true;
        this.#rest = NOTHING;
        return;
      }
      const end = at + HEAD + length;
      if (bytes.length < end) break;
      const stream = bytes.readUInt32BE(at + 5);
      this.#taker(bytes[at + 3] ?? 0, bytes[at + 4] ?? 0, stream, bytes.subarray(at + HEAD, end));
      at = end;
    }
    this.#rest = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
  }
}
