// Reads what the server sends as strictly as RFC 9113 allows, beside the model of what it was sent. What is wrong is
// noted, not thrown: this runs inside the server's own writes.

import type { Sent } from "./fuzz-sent.ts";
import { Cutter } from "./fuzz-wire.ts";
import {
  ACK,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  FULL,
  GOAWAY,
  HEADERS,
  PING,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from "./h2.ts";
import { type Field, Unpacker } from "./hpack-raw.ts";

const FIRST_WINDOW = 65_535;
const MOST = 0x7fffffff;
const MOST_FRAME = 2 ** 24;
/** Error codes have numbers below it. */
const CODES = 14;
const OF_CONNECTIONS: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"],
]);

/** A reply as far as it has come. */
export interface Reply {
  state: "none" | "open" | "ended";
  /** Codes of its resets, in turn. */
  readonly resets: number[];
  fields: readonly Field[];
  trailers: readonly Field[];
  body: Buffer[];
  length: number;
  /** The client's reset of it has been read by the server. */
  dead: boolean;
}

export class Judge {
  /** Everything that a strict peer would complain about. */
  readonly wrong: string[] = [];
  readonly replies = new Map<number, Reply>();
  /** Codes of GOAWAY frames in turn. */
  readonly goaways: number[] = [];
  frames = 0;
  /** What the client may send on the connection, and on new streams. */
  allowance = FIRST_WINDOW;
  streamWindow = FIRST_WINDOW;
  readonly allowedOn = new Map<number, number>();
  readonly #sent: Sent;
  readonly #keep: boolean;
  readonly #cutter: Cutter = new Cutter((...frame) => this.#take(...frame), MOST_FRAME);
  readonly #unpacker = new Unpacker();
  #last = MOST;
  #block: { readonly stream: number; readonly flags: number; bytes: Buffer } | undefined;
  #window = FIRST_WINDOW;
  #maxFrame = FULL;
  #data = 0;
  #dead = 0;

  /** `keep`: bodies are kept. */
  constructor(sent: Sent, keep: boolean) {
    this.#sent = sent;
    this.#keep = keep;
  }

  hear(bytes: Buffer): void {
    this.#cutter.push(bytes);
    if (this.#cutter.lost) this.#say("a frame of 16 MiB");
  }

  /** Between frames and header blocks. */
  get whole(): boolean {
    return this.#cutter.missing === 0 && this.#block === undefined;
  }

  /** The error that ended the connection; 0: none. */
  get failure(): number {
    return this.goaways.find((code) => code !== 0) ?? 0;
  }

  #say(what: string): void {
    if (this.wrong.length < 20) this.wrong.push(what);
  }

  #take(type: number, flags: number, stream: number, payload: Buffer): void {
    this.frames++;
    if (this.frames === 1 && (type !== SETTINGS || (flags & ACK) !== 0)) this.#say("no SETTINGS");
    if (this.failure !== 0) this.#say(`frame ${type} behind GOAWAY with an error`);
    const most = Math.max(this.#maxFrame, ...this.#sent.settings.flatMap(({ frames }) => frames));
    if (payload.length > most) this.#say(`frame ${type} of ${payload.length} bytes`);
    if (this.#block !== undefined && (type !== CONTINUATION || stream !== this.#block.stream)) {
      this.#say("a frame inside a header block");
    }
    if (type === DATA || type === HEADERS || type === RST_STREAM || type === CONTINUATION) {
      if (stream % 2 === 0 || stream > this.#sent.highest) {
        this.#say(`frame ${type} on idle stream ${stream}`);
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
        this.#onWindow(stream, payload);
        return;
      default:
        this.#say(`a frame of type ${type}`);
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
        dead: false,
      };
      this.replies.set(stream, reply);
    }
    return reply;
  }

  /** A reply to which something may still be added. */
  #living(type: number, stream: number): Reply {
    const reply = this.reply(stream);
    if (reply.state === "ended") this.#say(`frame ${type} behind the end of stream ${stream}`);
    if (reply.resets.length > 0) this.#say(`frame ${type} behind the reset of stream ${stream}`);
    if (reply.dead) this.#say(`frame ${type} on stream ${stream}, which was taken back`);
    return reply;
  }

  #onData(flags: number, stream: number, payload: Buffer): void {
    const reply = this.#living(DATA, stream);
    if (reply.state === "none") this.#say(`DATA before HEADERS on stream ${stream}`);
    const { length } = payload;
    this.#data += length;
    reply.length += length;
    if (this.#keep && length > 0) reply.body.push(Buffer.from(payload));
    if (length > 0 && this.#data > this.#sent.granted) this.#say("beyond the connection's window");
    const first = Math.max(this.#window, ...this.#sent.settings.flatMap(({ windows }) => windows));
    const granted = first + (this.#sent.grantedTo.get(stream) ?? 0);
    if (length > 0 && reply.length > granted) this.#say(`beyond the window of stream ${stream}`);
    if ((flags & ~END_STREAM) !== 0) this.#say(`DATA with flags ${flags}`);
    if ((flags & END_STREAM) !== 0) this.#ended(stream, reply);
  }

  #onHeaders(flags: number, stream: number, payload: Buffer): void {
    if ((flags & ~(END_STREAM | END_HEADERS)) !== 0) this.#say(`HEADERS with flags ${flags}`);
    this.#block = { stream, flags, bytes: Buffer.from(payload) };
    if ((flags & END_HEADERS) !== 0) this.#onBlock();
  }

  #onContinuation(flags: number, payload: Buffer): void {
    if (this.#block === undefined) {
      this.#say("CONTINUATION without HEADERS");
      return;
    }
    this.#block.bytes = Buffer.concat([this.#block.bytes, payload]);
    if ((flags & END_HEADERS) !== 0) this.#onBlock();
  }

  #onBlock(): void {
    if (this.#block === undefined) return;
    const { stream, flags, bytes } = this.#block;
    this.#block = undefined;
    const reply = this.#living(HEADERS, stream);
    let fields: readonly Field[] = [];
    try {
      fields = this.#unpacker.unpack(bytes);
    } catch (thrown) {
      this.#say(`header block: ${String(thrown)}`);
      return;
    }
    const ends = (flags & END_STREAM) !== 0;
    for (const [name] of fields) {
      if (name === "" || /[A-Z\s]/.test(name) || OF_CONNECTIONS.has(name)) {
        this.#say(`a field named ${JSON.stringify(name)}`);
      }
    }
    const pseudo = fields.filter(([name]) => name.startsWith(":")).length;
    if (reply.state === "none") {
      const [first] = fields;
      const status = first?.[0] === ":status" ? first[1] : "";
      if (pseudo !== 1 || !/^[1-5]\d\d$/.test(status)) this.#say("a head without its status");
      const interim = status.startsWith("1");
      if (interim && ends) this.#say("an interim head that ends its stream");
      if (!interim) {
        reply.state = "open";
        reply.fields = fields;
      }
    } else {
      reply.trailers = fields;
      if (!ends) this.#say("trailers that do not end their stream");
      if (pseudo !== 0) this.#say("trailers with a pseudo header");
    }
    if (ends) this.#ended(stream, reply);
  }

  #ended(stream: number, reply: Reply): void {
    reply.state = "ended";
    const announced = reply.fields.find(([name]) => name === "content-length")?.[1];
    if (announced !== undefined && reply.length > 0 && Number(announced) !== reply.length) {
      this.#say(`content-length ${announced} and ${reply.length} bytes on stream ${stream}`);
    }
    const isGrpc = reply.fields.some(([, value]) => value === "application/grpc");
    const last = reply.trailers.length > 0 ? reply.trailers : reply.fields;
    const status = last.find(([name]) => name === "grpc-status")?.[1];
    if (isGrpc && !/^(\d|1[0-6])$/.test(status ?? "")) this.#say(`grpc-status ${status}`);
  }

  #onReset(stream: number, payload: Buffer): void {
    const reply = this.reply(stream);
    if (payload.length !== 4) this.#say("RST_STREAM's length");
    else {
      const code = payload.readUInt32BE();
      if (code >= CODES) this.#say(`RST_STREAM with code ${code}`);
      if (code === 0 && reply.state !== "ended")
        this.#say("RST_STREAM without an error or a reply");
      reply.resets.push(code);
    }
    const reasons = (this.#sent.onStream.get(stream) ?? 0) + 1;
    if (reply.resets.length > reasons) this.#say(`stream ${stream} is reset again and again`);
  }

  #onSettings(flags: number, stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length % 6 !== 0) this.#say("SETTINGS");
    if ((flags & ACK) !== 0) {
      const said = this.#sent.settings.shift();
      if (said === undefined || payload.length > 0) this.#say("SETTINGS are acknowledged");
      if (said === undefined) return;
      this.#window = said.windows.at(-1) ?? this.#window;
      this.#maxFrame = said.frames.at(-1) ?? this.#maxFrame;
      for (const size of said.tables) this.#unpacker.limit(Math.min(size, 4_096));
      return;
    }
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      const value = payload.readUInt32BE(at + 2);
      if (payload.readUInt16BE(at) === 4) this.streamWindow = value;
    }
  }

  #onPing(flags: number, stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length !== 8) this.#say("PING");
    if ((flags & ACK) === 0) return;
    const asked = this.#sent.pings.shift();
    if (asked?.payload !== payload.toString("hex")) this.#say("an answer to another PING");
    for (; asked !== undefined && this.#dead < asked.resets; this.#dead++) {
      this.reply(this.#sent.resets[this.#dead] ?? 0).dead = true;
    }
  }

  #onGoaway(stream: number, payload: Buffer): void {
    if (stream !== 0 || payload.length < 8) {
      this.#say("GOAWAY");
      return;
    }
    const last = payload.readUInt32BE();
    const code = payload.readUInt32BE(4);
    this.goaways.push(code);
    if (code >= CODES) this.#say(`GOAWAY with code ${code}`);
    if (last > this.#last) this.#say(`GOAWAY names ${last} behind ${this.#last}`);
    if (last > this.#sent.highest && (last !== MOST || code !== 0)) this.#say(`GOAWAY at ${last}`);
    this.#last = last;
  }

  #onWindow(stream: number, payload: Buffer): void {
    const by = payload.length === 4 ? payload.readUInt32BE() : 0;
    if (by === 0 || by > MOST) this.#say(`WINDOW_UPDATE by ${by}`);
    if (stream === 0) {
      this.allowance += by;
      if (this.allowance - this.#sent.data > MOST) this.#say("a window beyond its most");
      return;
    }
    const reply = this.reply(stream);
    if (reply.resets.length > 0) this.#say(`WINDOW_UPDATE behind the reset of stream ${stream}`);
    if (stream > this.#sent.highest) this.#say("WINDOW_UPDATE on an idle stream");
    this.allowedOn.set(stream, (this.allowedOn.get(stream) ?? 0) + by);
  }
}
