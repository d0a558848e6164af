// Writes all frames except those of a reply that is sent in one piece, which its stream writes itself.

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
const NO_PAYLOAD = new Uint8Array(0);

export class FrameWriter {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  /** Takes pairs of setting id and value. */
  settings(values: readonly (readonly [id: number, value: number])[]): void {
    const payload = Buffer.alloc(values.length * PAYLOAD_LENGTH.setting);
    let at = 0;
    for (const [id, value] of values)
      at = payload.writeUInt32BE(value, payload.writeUInt16BE(id, at));
    this.#frame(FRAME_TYPE.settings, 0, 0, payload, 0, at);
  }

  settingsAck(): void {
    this.#frame(FRAME_TYPE.settings, FLAG.ack, 0, NO_PAYLOAD, 0, 0);
  }

  windowUpdate(stream: number, increment: number): void {
    this.#uint32Frame(FRAME_TYPE.windowUpdate, stream, increment);
  }

  rstStream(stream: number, code: number): void {
    this.#uint32Frame(FRAME_TYPE.rstStream, stream, code);
  }

  ping(payload: number): void {
    const length = PAYLOAD_LENGTH.ping;
    const bytes = this.#output.allocate(FRAME_HEADER_LENGTH + length);
    const at = writeFrameHeader(bytes, this.#output.position, length, FRAME_TYPE.ping, 0, 0);
    this.#output.advance(writeUint32(bytes, writeUint32(bytes, at, 0), payload));
  }

  /** Acknowledges a PING by returning its payload. */
  pingAck(ping: Buffer, start: number): void {
    this.#frame(FRAME_TYPE.ping, FLAG.ack, 0, ping, start, start + PAYLOAD_LENGTH.ping);
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

  /** Writes `bytes[start, end)`, which windows and MAX_FRAME_SIZE allow. */
  data(stream: number, bytes: Uint8Array, start: number, end: number, last: boolean): void {
    this.#frame(FRAME_TYPE.data, last ? FLAG.endStream : 0, stream, bytes, start, end);
  }

  /** `debugData` is ASCII, for people who read the peer's log. */
  goAway(last: number, code: number, debugData: string): void {
    const payload = Buffer.alloc(PAYLOAD_LENGTH.goAway + debugData.length);
    payload.write(debugData, payload.writeUInt32BE(code, payload.writeUInt32BE(last)), "latin1");
    this.#frame(FRAME_TYPE.goAway, 0, 0, payload, 0, payload.length);
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
