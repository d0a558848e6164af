// One stream: what its exchange sends goes out in one piece where windows allow, and waits here where they don't.

import type { Duplex } from "node:stream";
import type { Http2Fault } from "../settings.ts";
import type { Exchange, Stream } from "./exchange.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { ERROR, FLAG, FRAME, MAX_FRAME, putHead, putLength } from "./frames.ts";
import type { Encoder, FixedBlock } from "./hpack/encoder.ts";
import { STREAM_WINDOW } from "./limits.ts";
import type { Output } from "./output.ts";

/** A whole reply was sent; we reset the stream; the peer did, or is gone. */
export type End = "answered" | "reset" | "dropped";

/** What streams share with the connection that they run on. */
export interface Line {
  readonly peer: string;
  readonly socket: Duplex;
  readonly out: Output;
  readonly frames: FrameWriter;
  readonly encoder: Encoder;
  /** Bytes of data that the peer takes now on all streams together. */
  window: number;
  fault(fault: Http2Fault): void;
  hold(bytes: number): boolean;
  release(bytes: number): void;
  /** As a stream is charged. */
  charge(calls: number, fault: Http2Fault, wrong: boolean): void;
  /** The stream waits for the connection's window, or for its socket. */
  blocked(stream: H2Stream): void;
  ended(stream: H2Stream, how: End): void;
  /** Work that outlived its stream is done. */
  rested(): void;
}

interface Waiting {
  readonly bytes: Uint8Array;
  at: number;
}

export class H2Stream implements Stream {
  readonly id: number;
  /** The part of its request that was not whole at the last sweep, and the sweep after which that began. */
  begun = 1;
  since: number;
  exchange: Exchange | undefined;
  /** How much the peer takes. */
  window: number;
  /** How much more the peer may send. */
  allowance = STREAM_WINDOW;
  /** Of an announced content-length, what has not come; -1 where none was announced. */
  expected: number;
  /** The request is whole. */
  heard = false;
  /** Sweeps for which a reply has waited to be taken as a whole. */
  stuck = 0;
  readonly #line: Line;
  #closed = false;
  #working = false;
  #held = 0;
  /** It was to keep more than it may, which has been counted: whatever ends it then is no other fault. */
  #refused = false;
  #credited = 0;
  #waiting: Waiting[] | undefined;
  /** Trailers that wait behind the body; `[]` ends the stream without any. */
  #last: readonly string[] | undefined;

  constructor(line: Line, id: number, now: number, window: number, expected: number) {
    this.#line = line;
    this.id = id;
    this.since = now;
    this.window = window;
    this.expected = expected;
  }

  get peer(): string {
    return this.#line.peer;
  }

  get socket(): Duplex {
    return this.#line.socket;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get working(): boolean {
    return this.#working;
  }

  /** A reply waits for the peer to take it. */
  get waits(): boolean {
    return this.#waiting !== undefined;
  }

  answer(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void {
    if (this.#closed) return;
    const line = this.#line;
    const size = lead.length + body.length;
    const room = HEADS + (more === undefined ? 0 : line.encoder.room(more));
    const fits = size <= this.window && size <= line.window && size <= MAX_FRAME;
    if (!fits || room > MAX_FRAME || line.out.choked) {
      this.headers(more === undefined ? head.fields : [...head.fields, ...more], false);
      this.write(lead, false);
      this.write(body, false);
      this.headers(trailers.fields, true);
      return;
    }
    const { out } = line;
    const bytes = out.room(size + room);
    let at = this.#putHeaders(bytes, out.at, head, more, FLAG.endHeaders);
    at = putHead(bytes, at, size, FRAME.data, 0, this.id);
    for (let index = 0; index < lead.length; index++) bytes[at + index] = lead[index] ?? 0;
    at += lead.length;
    bytes.set(body, at);
    at += body.length;
    at = this.#putHeaders(bytes, at, trailers, undefined, FLAG.endHeaders | FLAG.endStream);
    out.wrote(at);
    this.window -= size;
    line.window -= size;
    this.#finish();
  }

  headers(fields: readonly string[], last: boolean): void {
    if (this.#closed) return;
    if (this.#waiting !== undefined) {
      if (!last) throw new Error("a reply's head must come before its body");
      this.#last = fields;
      return;
    }
    const { frames, encoder } = this.#line;
    frames.headers(this.id, encoder.block(fields), last);
    if (last) this.#finish();
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    if (this.#closed) return true;
    let at = 0;
    if (this.#waiting === undefined) {
      at = this.#send(bytes, 0, last);
      if (at === bytes.length) {
        if (last) this.#finish();
        return true;
      }
    }
    this.#wait(bytes, at);
    if (last) this.#last = [];
    return false;
  }

  /** The peer takes more: sends on. */
  pump(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const ends = waiting.length === 1 && this.#last?.length === 0;
      const at = this.#send(next.bytes, next.at, ends);
      if (at < next.bytes.length) {
        next.at = at;
        return;
      }
      waiting.shift();
      this.release(next.bytes.length);
    }
    this.#waiting = undefined;
    this.stuck = 0;
    const last = this.#last;
    if (last === undefined) this.exchange?.drained();
    else if (last.length === 0) this.#finish();
    else this.headers(last, true);
  }

  reset(code: number): void {
    if (this.#closed) return;
    if (this.#waiting !== undefined && !this.#refused) this.#line.fault("slow_reader");
    this.#reset(code);
  }

  /** Ends the stream without a word to the peer, who did it or is gone. */
  drop(): void {
    if (this.#closed) return;
    this.#close("dropped");
    this.exchange?.gone();
  }

  /** Resets the stream for what the peer did; its exchange is told. */
  break(code: number): void {
    if (this.#closed) return;
    this.#reset(code);
    this.exchange?.gone();
  }

  credit(bytes: number): void {
    if (this.heard || this.#closed) return;
    this.#credited += bytes;
    if (this.#credited < STREAM_WINDOW / 2) return;
    this.#line.frames.window(this.id, this.#credited);
    this.allowance += this.#credited;
    this.#credited = 0;
  }

  hold(bytes: number): boolean {
    if (this.#closed && (!this.#working || this.#refused)) return false;
    this.#refused = !this.#line.hold(bytes);
    if (!this.#refused) this.#held += bytes;
    return !this.#refused;
  }

  release(bytes: number): void {
    const given = Math.min(bytes, this.#held);
    this.#held -= given;
    this.#line.release(given);
  }

  charge(calls: number, fault: Http2Fault, wrong: boolean): void {
    this.#line.charge(calls, fault, wrong);
  }

  work(): void {
    this.#working = true;
  }

  rest(): void {
    if (!this.#working) return;
    this.#working = false;
    if (!this.#closed) return;
    this.release(this.#held);
    this.#line.rested();
  }

  /** A whole HEADERS frame of a fixed block and, after it, further fields. */
  #putHeaders(
    bytes: Uint8Array,
    start: number,
    block: FixedBlock,
    more: readonly string[] | undefined,
    flags: number,
  ): number {
    const { encoder } = this.#line;
    const payload = putHead(bytes, start, 0, FRAME.headers, flags, this.id);
    const fixed = encoder.fixed(block);
    let at = payload;
    for (let index = 0; index < fixed.length; index++) bytes[at + index] = fixed[index] ?? 0;
    at += fixed.length;
    if (more !== undefined) {
      for (let index = 0; index < more.length; index += 2) {
        at = encoder.field(bytes, at, more[index] ?? "", more[index + 1] ?? "");
      }
    }
    putLength(bytes, start, at - payload);
    return at;
  }

  /** Sends what windows allow of `bytes` from `at` on; returns how far it came. */
  #send(bytes: Uint8Array, start: number, last: boolean): number {
    const line = this.#line;
    const { out } = line;
    let at = start;
    do {
      // Windows may be below nothing (RFC 9113 §6.9.2).
      const part = Math.max(0, Math.min(MAX_FRAME, bytes.length - at, this.window, line.window));
      const stops = out.choked || part === 0;
      if (stops && at < bytes.length) {
        // Who has no window of its own waits for that first.
        if (this.window > 0) line.blocked(this);
        return at;
      }
      const ends = last && at + part === bytes.length;
      if (part > 0 || ends) {
        line.frames.data(this.id, bytes, at, at + part, ends);
        this.window -= part;
        line.window -= part;
        at += part;
      }
    } while (at < bytes.length);
    return at;
  }

  /** Keeps what the peer does not take yet. A peer that makes us keep too much loses the stream. */
  #wait(bytes: Uint8Array, at: number): void {
    if (at === bytes.length) return;
    // Before it is copied: what is refused costs nothing, however long it is.
    if (!this.hold(bytes.length - at)) {
      this.break(ERROR.calm);
      return;
    }
    this.#waiting ??= [];
    this.#waiting.push({ bytes: Uint8Array.prototype.slice.call(bytes, at), at: 0 });
  }

  /** What waits is sent no more. */
  #forget(): void {
    if (this.#waiting === undefined) return;
    for (const { bytes } of this.#waiting) this.release(bytes.length);
    this.#waiting = undefined;
  }

  /** The reply is out as a whole. */
  #finish(): void {
    this.#close("answered");
  }

  #reset(code: number): void {
    this.#line.frames.reset(this.id, code);
    this.#close("reset");
  }

  #close(how: End): void {
    this.#closed = true;
    this.#forget();
    // What a handler still works with is still kept.
    if (this.#held > 0 && !this.#working) this.release(this.#held);
    this.#line.ended(this, how);
  }
}

/** Room for the two header frames and the data frame's head of an answer: fixed blocks are far smaller. */
const HEADS = 1_024;
