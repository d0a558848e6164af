// What a fuzzed connection has been sent, as far as RFC 9113 lets anybody be sure of it: which streams there are,
// what the server may send, and whether the connection must end. It reads the same bytes as the server does.

import { Cutter } from "./fuzz-wire.ts";
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  FULL,
  GOAWAY,
  HEADERS,
  PADDED,
  PING,
  PREFACE,
  PRIORITY,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from "./h2.ts";

const FIRST_WINDOW = 65_535;
const MOST = 0x7fffffff;

/** What one SETTINGS frame says, in order. */
export interface Said {
  readonly windows: readonly number[];
  readonly frames: readonly number[];
  readonly tables: readonly number[];
}

interface Asked {
  readonly payload: string;
  /** How many streams had been taken back before it. */
  readonly resets: number;
}

export class Sent {
  frames = 0;
  /** Why the connection must end, when it must. */
  fatal: string | undefined;
  /** Highest stream whose header block was whole. */
  highest = 0;
  /** Frames on each stream: the server has no other reason to reset one than these and its own reply. */
  readonly onStream = new Map<number, number>();
  /** Settings that the server has not acknowledged, and pings that it has not answered. */
  readonly settings: Said[] = [];
  readonly pings: Asked[] = [];
  /** All pings that there were. */
  asked = 0;
  readonly resets: number[] = [];
  /** Bytes of data, padding included. */
  data = 0;
  /** What the server may send on the connection, and on streams beyond the first window. */
  granted = FIRST_WINDOW;
  readonly grantedTo = new Map<number, number>();
  /** The peer said that it will leave. */
  leaves = false;
  readonly #cutter: Cutter = new Cutter((...frame) => this.#take(...frame), FULL);
  #preface = 0;
  #block = 0;

  /** Bytes that would complete the frame at hand. */
  get missing(): number {
    return this.fatal === undefined ? this.#cutter.missing : 0;
  }

  /** A header block is not whole. */
  get midBlock(): boolean {
    return this.#block !== 0;
  }

  push(bytes: Buffer): void {
    if (this.fatal !== undefined) return;
    let rest = bytes;
    if (this.#preface < PREFACE.length) {
      const count = Math.min(PREFACE.length - this.#preface, bytes.length);
      const wanted = PREFACE.subarray(this.#preface, this.#preface + count);
      if (!wanted.equals(bytes.subarray(0, count))) this.fatal = "no preface";
      this.#preface += count;
      rest = bytes.subarray(count);
    }
    this.#cutter.push(rest);
    if (this.#cutter.lost) this.fatal ??= "a frame that is too long";
  }

  #take(type: number, flags: number, id: number, payload: Buffer): void {
    this.frames++;
    if (this.fatal !== undefined) return;
    const stream = id & MOST;
    this.onStream.set(stream, (this.onStream.get(stream) ?? 0) + 1);
    if (this.#block !== 0 && (type !== CONTINUATION || stream !== this.#block)) {
      this.fatal = "a frame inside a header block";
      return;
    }
    this.fatal = this.#judge(type, flags, stream, payload);
    if (this.fatal === undefined) this.#note(type, flags, stream, payload);
  }

  #judge(type: number, flags: number, stream: number, payload: Buffer): string | undefined {
    const { length } = payload;
    const idle = stream > this.highest || stream % 2 === 0;
    const overpadded = (flags & PADDED) !== 0 && (payload[0] ?? 0) >= length;
    const acknowledges = (flags & ACK) !== 0;
    switch (type) {
      case DATA:
        return (idle && "DATA on an idle stream") || (overpadded && "padding") || undefined;
      case HEADERS:
        return (stream === 0 && "HEADERS on no stream") || (overpadded && "padding") || undefined;
      case RST_STREAM:
        return (idle && "RST_STREAM on an idle stream") || (length !== 4 && "length") || undefined;
      case SETTINGS:
        if (stream !== 0) return "SETTINGS on a stream";
        if (acknowledges ? length > 0 : length % 6 !== 0) return "SETTINGS' length";
        return acknowledges ? undefined : badSetting(payload);
      case PUSH_PROMISE:
        return "PUSH_PROMISE";
      case PING:
        return stream !== 0 || length !== 8 ? "PING" : undefined;
      case GOAWAY:
        return stream !== 0 || length < 8 ? "GOAWAY" : undefined;
      case WINDOW_UPDATE:
        if (length !== 4) return "WINDOW_UPDATE's length";
        if (stream !== 0) return idle ? "WINDOW_UPDATE on an idle stream" : undefined;
        return (payload.readUInt32BE() & MOST) === 0 ? "WINDOW_UPDATE by 0" : undefined;
      case CONTINUATION:
        return this.#block === 0 ? "CONTINUATION without a header block" : undefined;
      case PRIORITY:
        return stream === 0 ? "PRIORITY on stream 0" : undefined;
      default:
        return undefined;
    }
  }

  #note(type: number, flags: number, stream: number, payload: Buffer): void {
    if (type === HEADERS || type === CONTINUATION) {
      const whole = (flags & END_HEADERS) !== 0;
      this.#block = whole ? 0 : stream;
      // A server may judge the id when the block is whole.
      if (whole && stream % 2 === 0) this.fatal = "HEADERS on a stream of the server";
      else if (whole && stream > this.highest) this.highest = stream;
    } else if (type === DATA) this.data += payload.length;
    else if (type === RST_STREAM) this.resets.push(stream);
    else if (type === GOAWAY) this.leaves = true;
    else if (type === PING && (flags & ACK) === 0) {
      this.asked++;
      this.pings.push({ payload: payload.toString("hex"), resets: this.resets.length });
    } else if (type === SETTINGS && (flags & ACK) === 0) {
      this.settings.push({
        windows: values(payload, 4),
        frames: values(payload, 5),
        tables: values(payload, 1),
      });
    } else if (type === WINDOW_UPDATE) this.#grant(stream, payload.readUInt32BE() & MOST);
  }

  #grant(stream: number, by: number): void {
    if (stream === 0) this.granted += by;
    else this.grantedTo.set(stream, (this.grantedTo.get(stream) ?? 0) + by);
  }
}

function badSetting(payload: Buffer): string | undefined {
  const bad = (id: number, good: (value: number) => boolean) => !values(payload, id).every(good);
  if (bad(2, (value) => value <= 1)) return "ENABLE_PUSH";
  if (bad(4, (value) => value <= MOST)) return "INITIAL_WINDOW_SIZE";
  return bad(5, (value) => value >= FULL && value < 2 ** 24) ? "MAX_FRAME_SIZE" : undefined;
}

function values(payload: Buffer, id: number): readonly number[] {
  const found: number[] = [];
  for (let at = 0; at + 6 <= payload.length; at += 6) {
    if (payload.readUInt16BE(at) === id) found.push(payload.readUInt32BE(at + 2));
  }
  return found;
}
