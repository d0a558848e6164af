// Writes frames, except those of a reply that leaves in one piece: its stream does that itself.

import { FLAG, FRAME, FRAME_HEAD, MAX_FRAME, PAYLOAD, putHead, putUint32 } from "./frames.ts";
import type { Output } from "./output.ts";

export class FrameWriter {
  readonly #out: Output;

  constructor(out: Output) {
    this.#out = out;
  }

  /** Ids and values. */
  settings(values: readonly (readonly [id: number, value: number])[]): void {
    const length = values.length * PAYLOAD.setting;
    const bytes = this.#out.room(FRAME_HEAD + length);
    let at = putHead(bytes, this.#out.at, length, FRAME.settings, 0, 0);
    for (const [id, value] of values) {
      bytes[at] = 0;
      bytes[at + 1] = id;
      at = putUint32(bytes, at + 2, value);
    }
    this.#out.wrote(at);
  }

  settingsTaken(): void {
    const bytes = this.#out.room(FRAME_HEAD);
    this.#out.wrote(putHead(bytes, this.#out.at, 0, FRAME.settings, FLAG.ack, 0));
  }

  window(stream: number, by: number): void {
    this.#number(FRAME.window, stream, by);
  }

  reset(stream: number, code: number): void {
    this.#number(FRAME.reset, stream, code);
  }

  ping(what: number): void {
    const bytes = this.#out.room(FRAME_HEAD + PAYLOAD.ping);
    const at = putHead(bytes, this.#out.at, PAYLOAD.ping, FRAME.ping, 0, 0);
    this.#out.wrote(putUint32(bytes, putUint32(bytes, at, 0), what));
  }

  /** Gives a ping's payload back. */
  pong(ping: Buffer, start: number): void {
    const bytes = this.#out.room(FRAME_HEAD + PAYLOAD.ping);
    const at = putHead(bytes, this.#out.at, PAYLOAD.ping, FRAME.ping, FLAG.ack, 0);
    bytes.set(ping.subarray(start, start + PAYLOAD.ping), at);
    this.#out.wrote(at + PAYLOAD.ping);
  }

  /** A header block, in as many frames as it needs; `last` ends the stream. */
  headers(stream: number, block: Uint8Array, last: boolean): void {
    let flags = last ? FLAG.endStream : 0;
    let type: number = FRAME.headers;
    let at = 0;
    do {
      const end = Math.min(at + MAX_FRAME, block.length);
      if (end === block.length) flags |= FLAG.endHeaders;
      this.#part(type, flags, stream, block, at, end);
      at = end;
      flags = 0;
      type = FRAME.continuation;
    } while (at < block.length);
  }

  /** `bytes[start, end)`, which windows and MAX_FRAME allow. */
  data(stream: number, bytes: Uint8Array, start: number, end: number, last: boolean): void {
    this.#part(FRAME.data, last ? FLAG.endStream : 0, stream, bytes, start, end);
  }

  /** `why` is for people who read the peer's log; ASCII. */
  goAway(last: number, code: number, why: string): void {
    const length = PAYLOAD.goaway + why.length;
    const bytes = this.#out.room(FRAME_HEAD + length);
    let at = putHead(bytes, this.#out.at, length, FRAME.goaway, 0, 0);
    at = putUint32(bytes, putUint32(bytes, at, last), code);
    this.#out.wrote(at + bytes.write(why, at, "latin1"));
  }

  #part(
    type: number,
    flags: number,
    stream: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    const length = end - start;
    const room = this.#out.room(FRAME_HEAD + length);
    const at = putHead(room, this.#out.at, length, type, flags, stream);
    room.set(length === bytes.length ? bytes : bytes.subarray(start, end), at);
    this.#out.wrote(at + length);
  }

  #number(type: number, stream: number, value: number): void {
    const bytes = this.#out.room(FRAME_HEAD + PAYLOAD.number);
    const at = putHead(bytes, this.#out.at, PAYLOAD.number, type, 0, stream);
    this.#out.wrote(putUint32(bytes, at, value));
  }
}
