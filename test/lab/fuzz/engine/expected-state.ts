// Model of a fuzzed connection, derived from the bytes that the client sent as far as RFC 9113 determines it: which
// streams exist, how much the server may send, and whether the connection must end. It reads the same bytes as the
// server.

import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  GOAWAY,
  HEADERS,
  MAX_FRAME_SIZE,
  PADDED,
  PING,
  PREFACE,
  PRIORITY,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from "../../../kit/clients/h2.ts";
import { FrameSplitter } from "./connection.ts";

const FIRST_WINDOW = 65_535;
const MAX_INT31 = 0x7fffffff;

/** Values of one SETTINGS frame, in order. */
export interface SettingsValues {
  readonly initialWindowSizes: readonly number[];
  readonly maxFrameSizes: readonly number[];
  readonly headerTableSizes: readonly number[];
}

interface PingSent {
  readonly payload: string;
  /** Number of RST_STREAM frames that were sent before it. */
  readonly resetsBefore: number;
}

export class ExpectedState {
  frames = 0;
  /** Connection error that the server must find; undefined as long as there is none. */
  connectionError: string | undefined;
  /** Highest stream with a complete field block. */
  highestStream = 0;
  /** Number of frames on each stream. The server may reset a stream only because of these or of its own reply. */
  readonly framesOnStream = new Map<number, number>();
  /** SETTINGS frames that the server has not acknowledged, and PINGs that it has not answered. */
  readonly unacknowledgedSettings: SettingsValues[] = [];
  readonly unansweredPings: PingSent[] = [];
  /** Number of PINGs sent so far. */
  pingsSent = 0;
  /** Streams in the order in which they were reset. */
  readonly resets: number[] = [];
  /** Payload bytes of DATA frames, padding included. */
  dataBytes = 0;
  /**
   * Number of DATA bytes the server may send in all on the connection, and on each stream beyond its initial window.
   */
  connectionCredit = FIRST_WINDOW;
  readonly streamCredit = new Map<number, number>();
  /** The client has sent GOAWAY. */
  goawaySent = false;
  readonly #splitter: FrameSplitter = new FrameSplitter(
    (...frame) => this.#onFrame(...frame),
    MAX_FRAME_SIZE,
  );
  #preface = 0;
  #block = 0;

  /** Number of bytes that would complete the frame in progress. */
  get missingBytes(): number {
    return this.connectionError === undefined ? this.#splitter.missingBytes : 0;
  }

  /** The client is in the middle of a field block. */
  get inHeaderBlock(): boolean {
    return this.#block !== 0;
  }

  push(bytes: Buffer): void {
    if (this.connectionError !== undefined) return;
    let rest = bytes;
    if (this.#preface < PREFACE.length) {
      const count = Math.min(PREFACE.length - this.#preface, bytes.length);
      const wanted = PREFACE.subarray(this.#preface, this.#preface + count);
      if (!wanted.equals(bytes.subarray(0, count))) this.connectionError = "no preface";
      this.#preface += count;
      rest = bytes.subarray(count);
    }
    this.#splitter.push(rest);
    if (this.#splitter.oversized) this.connectionError ??= "a frame that exceeds the maximum size";
  }

  #onFrame(type: number, flags: number, id: number, payload: Buffer): void {
    this.frames++;
    if (this.connectionError !== undefined) return;
    const stream = id & MAX_INT31;
    this.framesOnStream.set(stream, (this.framesOnStream.get(stream) ?? 0) + 1);
    if (this.#block !== 0 && (type !== CONTINUATION || stream !== this.#block)) {
      this.connectionError = "a frame inside a field block";
      return;
    }
    this.connectionError = this.#errorOf(type, flags, stream, payload);
    if (this.connectionError === undefined) this.#apply(type, flags, stream, payload);
  }

  #errorOf(type: number, flags: number, stream: number, payload: Buffer): string | undefined {
    const { length } = payload;
    const idle = stream > this.highestStream || stream % 2 === 0;
    const overpadded = (flags & PADDED) !== 0 && (payload[0] ?? 0) >= length;
    const acknowledges = (flags & ACK) !== 0;
    switch (type) {
      case DATA:
        return (idle && "DATA on an idle stream") || (overpadded && "padding") || undefined;
      case HEADERS:
        return (stream === 0 && "HEADERS on stream 0") || (overpadded && "padding") || undefined;
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
        return (payload.readUInt32BE() & MAX_INT31) === 0
          ? "WINDOW_UPDATE with increment 0"
          : undefined;
      case CONTINUATION:
        return this.#block === 0 ? "CONTINUATION without a field block" : undefined;
      case PRIORITY:
        return stream === 0 ? "PRIORITY on stream 0" : undefined;
      default:
        return undefined;
    }
  }

  #apply(type: number, flags: number, stream: number, payload: Buffer): void {
    if (type === HEADERS || type === CONTINUATION) {
      const complete = (flags & END_HEADERS) !== 0;
      this.#block = complete ? 0 : stream;
      // A server may wait for the complete block before it checks the stream id.
      if (complete && stream % 2 === 0) this.connectionError = "HEADERS on a server's stream id";
      else if (complete && stream > this.highestStream) this.highestStream = stream;
    } else if (type === DATA) this.dataBytes += payload.length;
    else if (type === RST_STREAM) this.resets.push(stream);
    else if (type === GOAWAY) this.goawaySent = true;
    else if (type === PING && (flags & ACK) === 0) {
      this.pingsSent++;
      this.unansweredPings.push({
        payload: payload.toString("hex"),
        resetsBefore: this.resets.length,
      });
    } else if (type === SETTINGS && (flags & ACK) === 0) {
      this.unacknowledgedSettings.push({
        initialWindowSizes: values(payload, 4),
        maxFrameSizes: values(payload, 5),
        headerTableSizes: values(payload, 1),
      });
    } else if (type === WINDOW_UPDATE) this.#addCredit(stream, payload.readUInt32BE() & MAX_INT31);
  }

  #addCredit(stream: number, by: number): void {
    if (stream === 0) this.connectionCredit += by;
    else this.streamCredit.set(stream, (this.streamCredit.get(stream) ?? 0) + by);
  }
}

function badSetting(payload: Buffer): string | undefined {
  const bad = (id: number, good: (value: number) => boolean) => !values(payload, id).every(good);
  if (bad(2, (value) => value <= 1)) return "ENABLE_PUSH";
  if (bad(4, (value) => value <= MAX_INT31)) return "INITIAL_WINDOW_SIZE";
  return bad(5, (value) => value >= MAX_FRAME_SIZE && value < 2 ** 24)
    ? "MAX_FRAME_SIZE"
    : undefined;
}

function values(payload: Buffer, id: number): readonly number[] {
  const found: number[] = [];
  for (let at = 0; at + 6 <= payload.length; at += 6) {
    if (payload.readUInt16BE(at) === id) found.push(payload.readUInt32BE(at + 2));
  }
  return found;
}
