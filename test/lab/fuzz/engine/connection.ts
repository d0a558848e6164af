// An in-memory connection for the fuzzer: a socket whose peer is a function, and a splitter of bytes into HTTP/2
// frames that serves both directions.

import { Duplex } from "node:stream";

type Done = (error?: Error | null) => void;

/** The server's end of the connection. It looks like a socket of a peer on this machine. */
export class MemorySocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  /** The server has ended its side: it will write no more. */
  writesEnded = false;
  readonly #onWrite: (bytes: Buffer) => void;
  #paused = false;
  #pending: { readonly bytes: Buffer; readonly done: Done } | undefined;

  /** `onWrite` receives what the server writes. It must not keep the buffer after it returns. */
  constructor(onWrite: (bytes: Buffer) => void) {
    super();
    this.#onWrite = onWrite;
  }

  /** While true, the socket accepts no bytes from the server. */
  set paused(paused: boolean) {
    this.#paused = paused;
    const pending = this.#pending;
    if (paused || pending === undefined) return;
    this.#pending = undefined;
    this.#onWrite(pending.bytes);
    pending.done();
  }

  override _read(): void {}

  override _write(bytes: Buffer, _: BufferEncoding, done: Done): void {
    if (this.#paused) {
      this.#pending = { bytes, done };
      return;
    }
    this.#onWrite(bytes);
    done();
  }

  override _final(done: Done): void {
    this.writesEnded = true;
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#pending = undefined;
    done(error);
  }
}

/** Receives complete frames. It must not keep the payload's buffer after it returns. */
export type FrameListener = (type: number, flags: number, stream: number, payload: Buffer) => void;

const HEAD = 9;
const NOTHING: Buffer = Buffer.alloc(0);

/** Splits a byte stream into frames and hands each to a listener. */
export class FrameSplitter {
  readonly #listener: FrameListener;
  readonly #maxPayload: number;
  #rest: Buffer = NOTHING;
  /** A frame exceeded the maximum payload, after which nothing more is split. */
  oversized = false;

  constructor(listener: FrameListener, maxPayload: number) {
    this.#listener = listener;
    this.#maxPayload = maxPayload;
  }

  /** Number of bytes that would complete the frame header or payload in progress; 0 between frames. */
  get missingBytes(): number {
    const rest = this.#rest;
    if (rest.length === 0) return 0;
    if (rest.length < HEAD) return HEAD - rest.length;
    return HEAD + rest.readUIntBE(0, 3) - rest.length;
  }

  push(chunk: Buffer): void {
    if (this.oversized) return;
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= HEAD) {
      const length = bytes.readUIntBE(at, 3);
      if (length > this.#maxPayload) {
        this.oversized = true;
        this.#rest = NOTHING;
        return;
      }
      const end = at + HEAD + length;
      if (bytes.length < end) break;
      const stream = bytes.readUInt32BE(at + 5);
      this.#listener(
        bytes[at + 3] ?? 0,
        bytes[at + 4] ?? 0,
        stream,
        bytes.subarray(at + HEAD, end),
      );
      at = end;
    }
    this.#rest = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
  }
}
