// Writes all frames, except those of a reply that is sent in one piece: its stream writes these itself.

import {
  FLAG,
  FRAME_HEADER_LENGTH,
  FRAME_TYPE,
  MAX_FRAME_SIZE,
  PAYLOAD_LENGTH,
  writeFrameHeader,
  writeUint32,
} from "./format.ts";
import type { Output } from "./output.ts";

/** Payload bytes of RST_STREAM and WINDOW_UPDATE: one number. */
const UINT32 = 4;

export class FrameWriter {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  /** Takes pairs of setting id and value. */
  settings(values: readonly (readonly [id: number, value: number])[]): void {
    const length = values.length * PAYLOAD_LENGTH.setting;
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + length);
    let at = writeFrameHeader(bytes, this.#output.position, length, FRAME_TYPE.settings, 0, 0);
    for (const [id, value] of values) {
      bytes[at] = 0;
      bytes[at + 1] = id;
      at = writeUint32(bytes, at + 2, value);
    }
    this.#output.advance(at);
  }

  settingsAck(): void {
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH);
    this.#output.advance(
      writeFrameHeader(bytes, this.#output.position, 0, FRAME_TYPE.settings, FLAG.ack, 0),
    );
  }

  windowUpdate(stream: number, increment: number): void {
    this.#uint32Frame(FRAME_TYPE.windowUpdate, stream, increment);
  }

  rstStream(stream: number, code: number): void {
    this.#uint32Frame(FRAME_TYPE.rstStream, stream, code);
  }

  ping(payload: number): void {
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + PAYLOAD_LENGTH.ping);
    const at = writeFrameHeader(
      bytes,
      this.#output.position,
      PAYLOAD_LENGTH.ping,
      FRAME_TYPE.ping,
      0,
      0,
    );
    this.#output.advance(writeUint32(bytes, writeUint32(bytes, at, 0), payload));
  }

  /** Acknowledges a PING by sending its payload back. */
  pingAck(ping: Buffer, start: number): void {
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + PAYLOAD_LENGTH.ping);
    const at = writeFrameHeader(
      bytes,
      this.#output.position,
      PAYLOAD_LENGTH.ping,
      FRAME_TYPE.ping,
      FLAG.ack,
      0,
    );
    bytes.set(ping.subarray(start, start + PAYLOAD_LENGTH.ping), at);
    this.#output.advance(at + PAYLOAD_LENGTH.ping);
  }

  /** Writes a field block in as many frames as it needs; `last` ends the stream. */
  headers(stream: number, block: Uint8Array, last: boolean): void {
    let flags = last ? FLAG.endStream : 0;
    let type: number = FRAME_TYPE.headers;
    let at = 0;
    do {
      const end = Math.min(at + MAX_FRAME_SIZE, block.length);
      if (end === block.length) flags |= FLAG.endHeaders;
      this.#frame(type, flags, stream, block, at, end);
      at = end;
      flags = 0;
      type = FRAME_TYPE.continuation;
    } while (at < block.length);
  }

  /** `bytes[start, end)`, which windows and MAX_FRAME allow. */
  data(stream: number, bytes: Uint8Array, start: number, end: number, last: boolean): void {
    this.#frame(FRAME_TYPE.data, last ? FLAG.endStream : 0, stream, bytes, start, end);
  }

  /** `why` is for people who read the peer's log; ASCII. */
  goAway(last: number, code: number, debugData: string): void {
    const length = PAYLOAD_LENGTH.goAway + debugData.length;
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + length);
    let at = writeFrameHeader(bytes, this.#output.position, length, FRAME_TYPE.goAway, 0, 0);
    at = writeUint32(bytes, writeUint32(bytes, at, last), code);
    this.#output.advance(at + bytes.write(debugData, at, "latin1"));
  }

  #frame(
    type: number,
    flags: number,
    stream: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    const length = end - start;
    const room = this.#output.allocate(FRAME_HEADER_LENGTH + length);
    const at = writeFrameHeader(room, this.#output.position, length, type, flags, stream);
    room.set(length === bytes.length ? bytes : bytes.subarray(start, end), at);
    this.#output.advance(at + length);
  }

  #uint32Frame(type: number, stream: number, value: number): void {
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + UINT32);
    const at = writeFrameHeader(bytes, this.#output.position, UINT32, type, 0, stream);
    this.#output.advance(writeUint32(bytes, at, value));
  }
}
