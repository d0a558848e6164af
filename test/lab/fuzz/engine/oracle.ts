// Checks the server's frames as strictly as RFC 9113 allows, against the model of what the client sent. It records
// violations instead of throwing, because it runs inside the server's own writes.

import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  HEADERS,
  MAX_FRAME_SIZE,
  PING,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from "../../../kit/clients/h2.ts";
import { type Field, HpackDecoder } from "../../../kit/clients/hpack.ts";
import { FrameSplitter } from "./connection.ts";
import type { ExpectedState } from "./expected-state.ts";

const FIRST_WINDOW = 65_535;
const MAX_INT31 = 0x7fffffff;
/** Longer than any payload that a frame header can announce. */
const MAX_PAYLOAD = 2 ** 24;
/** Number of error codes; each is below it (§7). */
const ERROR_CODES = 14;
/** Connection-specific fields, which HTTP/2 forbids (§8.2.2). */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/** A reply as far as it has been received. */
export interface Reply {
  state: "none" | "open" | "ended";
  /** Error codes of the server's RST_STREAM frames, in order. */
  readonly resets: number[];
  fields: readonly Field[];
  trailers: readonly Field[];
  body: Buffer[];
  length: number;
  /** The client reset the stream and the server has since answered a PING, so it has read the reset. */
  cancelled: boolean;
}

export class Oracle {
  /** Everything that a strict client would object to, at most 20 entries. */
  readonly violations: string[] = [];
  readonly replies = new Map<number, Reply>();
  /** Error codes of GOAWAY frames, in order. */
  readonly goaways: number[] = [];
  frames = 0;
  /** Number of DATA bytes that the client may send in all on the connection. */
  connectionCredit = FIRST_WINDOW;
  /** Initial window of the client's streams. */
  initialStreamWindow = FIRST_WINDOW;
  /** Sum of WINDOW_UPDATE increments for each stream. */
  readonly streamCredit = new Map<number, number>();
  readonly #expected: ExpectedState;
  readonly #keepBodies: boolean;
  readonly #splitter: FrameSplitter = new FrameSplitter(
    (...frame) => this.#onFrame(...frame),
    MAX_PAYLOAD,
  );
  readonly #decoder = new HpackDecoder();
  #lastGoawayStream = MAX_INT31;
  #block: { readonly stream: number; readonly flags: number; bytes: Buffer } | undefined;
  #initialWindowSize = FIRST_WINDOW;
  #maxFrame = MAX_FRAME_SIZE;
  #dataBytes = 0;
  #cancelledCount = 0;

  /** Keeps the bodies of replies when `keepBodies` is true. */
  constructor(expected: ExpectedState, keepBodies: boolean) {
    this.#expected = expected;
    this.#keepBodies = keepBodies;
  }

  read(bytes: Buffer): void {
    this.#splitter.push(bytes);
    if (this.#splitter.oversized) this.#report("a frame of more than 16 MiB");
  }

  /** The last byte received ended a frame, and no field block is incomplete. */
  get betweenFrames(): boolean {
    return this.#splitter.missingBytes === 0 && this.#block === undefined;
  }

  /** Error code of the first GOAWAY that has one; 0 if none has. */
  get errorCode(): number {
    return this.goaways.find((code) => code !== 0) ?? 0;
  }

  #report(what: string): void {
    if (this.violations.length < 20) this.violations.push(what);
  }

  #onFrame(type: number, flags: number, stream: number, payload: Buffer): void {
    this.frames++;
    if (this.frames === 1 && (type !== SETTINGS || (flags & ACK) !== 0))
      this.#report("the first frame is not SETTINGS");
    if (this.errorCode !== 0) this.#report(`frame ${type} after GOAWAY with an error`);
    const most = Math.max(
      this.#maxFrame,
      ...this.#expected.unacknowledgedSettings.flatMap(({ maxFrameSizes }) => maxFrameSizes),
    );
    if (payload.length > most) this.#report(`frame ${type} of ${payload.length} bytes`);
    if (this.#block !== undefined && (type !== CONTINUATION || stream !== this.#block.stream)) {
      this.#report("a frame inside a field block");
    }
    if (type === DATA || type === HEADERS || type === RST_STREAM || type === CONTINUATION) {
      if (stream % 2 === 0 || stream > this.#expected.highestStream) {
        this.#report(`frame ${type} on idle stream ${stream}`);
        return;
      }
    }
    switch (type) {
      case DATA:
        this.#onData(flags, stream, payload);
        return;
      case HEADERS:
        this.#onHeaders(flags, stream, payload);
        return;
      case CONTINUATION:
        this.#onContinuation(flags, payload);
        return;
      case RST_STREAM:
        this.#onReset(stream, payload);
        return;
      case SETTINGS:
        this.#onSettings(flags, stream, payload);
        return;
      case PING:
        this.#onPing(flags, stream, payload);
        return;
      case GOAWAY:
        this.#onGoaway(stream, payload);
        return;
      case WINDOW_UPDATE:
        this.#onWindowUpdate(stream, payload);
        return;
      default:
        this.#report(`a frame of type ${type}`);
    }
  }

  reply(stream: number): Reply {
    let reply = this.replies.get(stream);
    if (reply === undefined) {
      reply = {
        state: "none",
        resets: [],
        fields: [],
        trailers: [],
        body: [],
        length: 0,
        cancelled: false,
      };
      this.replies.set(stream, reply);
    }
    return reply;
  }

  /** The reply, after checking that it may still be continued. */
  #openReply(type: number, stream: number): Reply {
    const reply = this.reply(stream);
    if (reply.state === "ended") this.#report(`frame ${type} after the end of stream ${stream}`);
    if (reply.resets.length > 0) this.#report(`frame ${type} after the reset of stream ${stream}`);
    if (reply.cancelled)
      this.#report(`frame ${type} on stream ${stream}, which the client had reset`);
    return reply;
  }

  #onData(flags: number, stream: number, payload: Buffer): void {
    const reply = this.#openReply(DATA, stream);
    if (reply.state === "none") this.#report(`DATA before HEADERS on stream ${stream}`);
    const { length } = payload;
    this.#dataBytes += length;
    reply.length += length;
    if (this.#keepBodies && length > 0) reply.body.push(Buffer.from(payload));
    if (length > 0 && this.#dataBytes > this.#expected.connectionCredit)
      this.#report("DATA exceeds the connection window");
    const first = Math.max(
      this.#initialWindowSize,
      ...this.#expected.unacknowledgedSettings.flatMap(
        ({ initialWindowSizes }) => initialWindowSizes,
      ),
    );
    const granted = first + (this.#expected.streamCredit.get(stream) ?? 0);
    if (length > 0 && reply.length > granted)
      this.#report(`DATA exceeds the window of stream ${stream}`);
    if ((flags & ~END_STREAM) !== 0) this.#report(`DATA with flags ${flags}`);
    if ((flags & END_STREAM) !== 0) this.#onReplyEnd(stream, reply);
  }

  #onHeaders(flags: number, stream: number, payload: Buffer): void {
    if ((flags & ~(END_STREAM | END_HEADERS)) !== 0) this.#report(`HEADERS with flags ${flags}`);
    this.#block = { stream, flags, bytes: Buffer.from(payload) };
    if ((flags & END_HEADERS) !== 0) this.#onHeaderBlock();
  }

  #onContinuation(flags: number, payload: Buffer): void {
    if (this.#block === undefined) {
      this.#report("CONTINUATION without HEADERS");
      return;
    }
    this.#block.bytes = Buffer.concat([this.#block.bytes, payload]);
    if ((flags & END_HEADERS) !== 0) this.#onHeaderBlock();
  }

  #onHeaderBlock(): void {
    if (this.#block === undefined) return;
    const { stream, flags, bytes } = this.#block;
    this.#block = undefined;
    const reply = this.#openReply(HEADERS, stream);
    let fields: readonly Field[] = [];
    try {
      fields = this.#decoder.decode(bytes);
    } catch (thrown) {
      this.#report(`field block: ${String(thrown)}`);
      return;
    }
    const ends = (flags & END_STREAM) !== 0;
    for (const [name] of fields) {
      if (name === "" || /[A-Z\s]/.test(name) || CONNECTION_FIELDS.has(name)) {
        this.#report(`a field named ${JSON.stringify(name)}`);
      }
    }
    const pseudo = fields.filter(([name]) => name.startsWith(":")).length;
    if (reply.state === "none") {
      const [first] = fields;
      const status = first?.[0] === ":status" ? first[1] : "";
      if (pseudo !== 1 || !/^[1-5]\d\d$/.test(status))
        this.#report("a response without a valid :status");
      const interim = status.startsWith("1");
      if (interim && ends) this.#report("an interim response with END_STREAM");
      if (!interim) {
        reply.state = "open";
        reply.fields = fields;
      }
    } else {
      reply.trailers = fields;
      if (!ends) this.#report("trailers without END_STREAM");
      if (pseudo !== 0) this.#report("trailers with a pseudo-header");
    }
    if (ends) this.#onReplyEnd(stream, reply);
  }

  #onReplyEnd(stream: number, reply: Reply): void {
    reply.state = "ended";
    const announced = reply.fields.find(([name]) => name === "content-length")?.[1];
    if (announced !== undefined && reply.length > 0 && Number(announced) !== reply.length) {
      this.#report(`content-length ${announced} and ${reply.length} bytes on stream ${stream}`);
    }
    const isGrpc = reply.fields.some(([, value]) => value === "application/grpc");
    const last = reply.trailers.length > 0 ? reply.trailers : reply.fields;
    const status = last.find(([name]) => name === "grpc-status")?.[1];
    if (isGrpc && !/^(\d|1[0-6])$/.test(status ?? "")) this.#report(`grpc-status ${status}`);
  }

  #onReset(stream: number, payload: Buffer): void {
    const reply = this.reply(stream);
    if (payload.length !== 4) this.#report("RST_STREAM of a wrong length");
    else {
      const code = payload.readUInt32BE();
      if (code >= ERROR_CODES) this.#report(`RST_STREAM with code ${code}`);
      if (code === 0 && reply.state !== "ended")
        this.#report("RST_STREAM without an error or a reply");
      reply.resets.push(code);
    }
    const mostResets = (this.#expected.framesOnStream.get(stream) ?? 0) + 1;
    if (reply.resets.length > mostResets) this.#report(`stream ${stream} is reset too often`);
  }

  #onSettings(flags: number, stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length % 6 !== 0) this.#report("invalid SETTINGS");
    if ((flags & ACK) !== 0) {
      const values = this.#expected.unacknowledgedSettings.shift();
      if (values === undefined || payload.length > 0) this.#report("an unexpected SETTINGS ACK");
      if (values === undefined) return;
      this.#initialWindowSize = values.initialWindowSizes.at(-1) ?? this.#initialWindowSize;
      this.#maxFrame = values.maxFrameSizes.at(-1) ?? this.#maxFrame;
      for (const size of values.headerTableSizes) this.#decoder.limitTable(Math.min(size, 4_096));
      return;
    }
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      const value = payload.readUInt32BE(at + 2);
      if (payload.readUInt16BE(at) === 4) this.initialStreamWindow = value;
    }
  }

  #onPing(flags: number, stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length !== 8) this.#report("invalid PING");
    if ((flags & ACK) === 0) return;
    const ping = this.#expected.unansweredPings.shift();
    if (ping?.payload !== payload.toString("hex")) this.#report("PING ACK with a wrong payload");
    for (; ping !== undefined && this.#cancelledCount < ping.resetsBefore; this.#cancelledCount++) {
      this.reply(this.#expected.resets[this.#cancelledCount] ?? 0).cancelled = true;
    }
  }

  #onGoaway(stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length < 8) {
      this.#report("invalid GOAWAY");
      return;
    }
    const last = payload.readUInt32BE();
    const code = payload.readUInt32BE(4);
    this.goaways.push(code);
    if (code >= ERROR_CODES) this.#report(`GOAWAY with code ${code}`);
    if (last > this.#lastGoawayStream)
      this.#report(`the last stream id of GOAWAY rises to ${last} from ${this.#lastGoawayStream}`);
    if (last > this.#expected.highestStream && (last !== MAX_INT31 || code !== 0))
      this.#report(`GOAWAY with the unused last stream id ${last}`);
    this.#lastGoawayStream = last;
  }

  #onWindowUpdate(stream: number, payload: Buffer): void {
    const by = payload.length === 4 ? payload.readUInt32BE() : 0;
    if (by === 0 || by > MAX_INT31) this.#report(`WINDOW_UPDATE by ${by}`);
    if (stream === 0) {
      this.connectionCredit += by;
      if (this.connectionCredit - this.#expected.dataBytes > MAX_INT31)
        this.#report("a connection window above 2^31-1");
      return;
    }
    const reply = this.reply(stream);
    if (reply.resets.length > 0) this.#report(`WINDOW_UPDATE after the reset of stream ${stream}`);
    if (stream > this.#expected.highestStream) this.#report("WINDOW_UPDATE on an idle stream");
    this.streamCredit.set(stream, (this.streamCredit.get(stream) ?? 0) + by);
  }
}
