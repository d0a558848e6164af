// Calls over cleartext HTTP/2 (RFC 9113) with as little work per call as possible: a request is one copy of
// prepared bytes, with its stream identifier and its key written into it; field blocks are constant after the
// first (all fields are then in the dynamic table, as with real proxies); replies are counted by their frames.

import type { Socket } from "node:net";
import {
  type Connection,
  type ConnectionEvents,
  dial,
  KEY_PLACE,
  type OpenConnection,
  Outgoing,
  type Read,
  SAMPLE_EVERY,
  Template,
} from "./connection.ts";

const FRAME = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  window: 8,
} as const;
const END_STREAM = 1;
const END_HEADERS = 4;
const ACK = 1;
const FRAME_HEAD = 9;
/** Offset of the stream identifier in a frame header. */
const STREAM_AT = 5;
/** Largest frame that a peer may send under the default SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2). */
const LARGEST_FRAME = 16_384;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const WIDE = 0x7fffffff;
const FIRST_WINDOW = 65_535;
/** Length of the prefix of a gRPC message: a flag and four bytes of length. */
const GRPC_PREFIX = 5;
const NOTHING = Buffer.alloc(0);

type Field = readonly [name: string, value: string];

export interface GrpcRequest {
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The message, with a place for the key. */
  readonly message: Buffer;
}

/** Connections that send unary gRPC calls. */
export function grpcConnections({ path, metadata, message }: GrpcRequest): OpenConnection {
  const prefix = Buffer.alloc(GRPC_PREFIX);
  prefix.writeUInt32BE(message.length, 1);
  const fields: readonly Field[] = [
    ...pseudo("POST", path, "sluice"),
    ["te", "trailers"],
    ["content-type", "application/grpc"],
    ...Object.entries(metadata),
  ];
  return connections(fields, Buffer.concat([prefix, message]), GRPC_PREFIX);
}

/** Connections that send requests without a body, with the key in one of the headers. Replies must have a body. */
export function getConnections(
  path: string,
  host: string,
  headers: Readonly<Record<string, string>>,
) {
  return connections([...pseudo("GET", path, host), ...Object.entries(headers)], NOTHING, 0);
}

function pseudo(method: string, path: string, authority: string): readonly Field[] {
  return [
    [":method", method],
    [":scheme", "http"],
    [":path", path],
    [":authority", authority],
  ];
}

function connections(fields: readonly Field[], body: Buffer, prefix: number): OpenConnection {
  const known = fields.filter(([, value]) => !value.includes(KEY_PLACE));
  const block = (spell: (field: Field) => Buffer) => Buffer.concat(fields.map(spell));
  // The last field that was added has index 62, the first one the highest (RFC 7541 §2.3.3).
  const index = (field: Field) => Buffer.from([0x80 | (61 + known.length - known.indexOf(field))]);
  const isKnown = (field: Field) => known.includes(field);
  const request: Request = {
    first: framed(
      block((field) => literal(field, isKnown(field))),
      body,
    ),
    later: framed(
      block((field) => (isKnown(field) ? index(field) : literal(field, false))),
      body,
    ),
    body: body.length,
    prefix,
  };
  return async (target, events, calls) => {
    let connection: Http2Connection | undefined;
    const socket = await dial(target, (bytes, length) => connection?.read(bytes, length));
    connection = new Http2Connection(socket, events, request, calls);
    return connection;
  };
}

/** Literal field with a new name, not Huffman-coded, added to the dynamic table or not (RFC 7541 §6.2). */
function literal([name, value]: Field, kept: boolean): Buffer {
  return Buffer.concat([Buffer.from([kept ? 0x40 : 0]), text(name), text(value)]);
}

function text(value: string): Buffer {
  if (value.length >= 127) throw new Error("a header longer than the bench needs");
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value, "latin1")]);
}

/** All frames of a request, one after the other. */
interface Frames {
  readonly template: Template;
  /** Offset of the second frame's header; -1 without a body. */
  readonly bodyAt: number;
}

function framed(block: Buffer, body: Buffer): Frames {
  const bare = body.length === 0;
  const frames = [head(block.length, FRAME.headers, END_HEADERS | (bare ? END_STREAM : 0)), block];
  if (!bare) frames.push(head(body.length, FRAME.data, END_STREAM), body);
  return {
    template: new Template(Buffer.concat(frames)),
    bodyAt: bare ? -1 : FRAME_HEAD + block.length,
  };
}

interface Request {
  readonly first: Frames;
  readonly later: Frames;
  /** Bytes of a request's body. */
  readonly body: number;
  /** Bytes of a reply's body before its message. */
  readonly prefix: number;
}

class Http2Connection implements Connection {
  inFlight = 0;
  received = 0;
  readonly #socket: Socket;
  readonly #out: Outgoing;
  readonly #events: ConnectionEvents;
  readonly #request: Request;
  readonly #calls: number;
  /** Calls are indexed by the low bits of their stream identifiers. */
  readonly #mask: number;
  readonly #tags: Float64Array;
  readonly #sizes: Uint32Array;
  readonly #samples = new Map<number, Buffer[]>();
  #stream = -1;
  #window = FIRST_WINDOW;
  #unacknowledged = 0;
  /** The beginning of a frame whose end has not been read yet. */
  #split = NOTHING;
  #splitEnd = 0;

  constructor(socket: Socket, events: ConnectionEvents, request: Request, calls: number) {
    this.#socket = socket;
    this.#out = new Outgoing(socket);
    this.#events = events;
    this.#request = request;
    this.#calls = calls;
    const remembered = 2 ** Math.ceil(Math.log2(Math.max(32, 8 * calls)));
    this.#mask = remembered - 1;
    this.#tags = new Float64Array(remembered);
    this.#sizes = new Uint32Array(remembered);
    const settings = Buffer.alloc(12);
    settings.writeUInt16BE(4, 0); // INITIAL_WINDOW_SIZE: replies never wait for us
    settings.writeUInt32BE(WIDE, 2);
    settings.writeUInt16BE(2, 6); // ENABLE_PUSH 0
    socket.write(PREFACE);
    this.#frame(FRAME.settings, 0, settings);
    this.#widen(WIDE - FIRST_WINDOW);
    this.#out.flush();
    socket.on("error", (cause) => events.failed(cause.message));
    socket.on("close", () => events.failed("the connection was closed"));
  }

  ready(): boolean {
    return this.#window >= this.#request.body && this.inFlight < this.#calls;
  }

  send(tag: number, key: number): void {
    const { template, bodyAt } = this.#stream < 0 ? this.#request.first : this.#request.later;
    this.#stream += 2;
    const stream = this.#stream;
    const slot = (stream >>> 1) & this.#mask;
    this.#tags[slot] = tag;
    this.#sizes[slot] = 0;
    if ((stream >>> 1) % SAMPLE_EVERY === 0) this.#samples.set(stream, []);
    const at = this.#out.take(template.length);
    const { bytes } = this.#out;
    template.put(key, bytes, at);
    putNumber(stream, bytes, at + STREAM_AT);
    if (bodyAt >= 0) putNumber(stream, bytes, at + bodyAt + STREAM_AT);
    this.#window -= this.#request.body;
    this.inFlight++;
  }

  flush(): void {
    this.#out.flush();
  }

  close(): void {
    this.#socket.removeAllListeners();
    this.#socket.on("error", () => undefined);
    this.#socket.destroy();
  }

  readonly read: Read = (bytes, length) => {
    let at = this.#splitEnd === 0 ? 0 : this.#finish(bytes, length);
    while (at + FRAME_HEAD <= length) {
      const end = at + FRAME_HEAD + lengthOf(bytes, at);
      if (end > length) break;
      this.#take(bytes, at, end);
      at = end;
    }
    if (at < length) this.#keep(bytes, at, length);
    this.#events.drained(this);
    this.#out.flush();
  };

  #keep(bytes: Buffer, at: number, end: number): void {
    if (this.#split.length === 0) this.#split = Buffer.alloc(FRAME_HEAD + LARGEST_FRAME);
    this.#splitEnd += bytes.copy(this.#split, this.#splitEnd, at, end);
  }

  /** Completes the split frame as far as the bytes go. Returns the offset of the next frame. */
  #finish(bytes: Buffer, length: number): number {
    let at = 0;
    while (at < length) {
      const end = FRAME_HEAD + (this.#splitEnd < FRAME_HEAD ? 0 : lengthOf(this.#split, 0));
      const part = Math.min(end - this.#splitEnd, length - at);
      this.#keep(bytes, at, at + part);
      at += part;
      if (this.#splitEnd < FRAME_HEAD) continue;
      if (this.#splitEnd < FRAME_HEAD + lengthOf(this.#split, 0)) continue;
      this.#take(this.#split, 0, this.#splitEnd);
      this.#splitEnd = 0;
      return at;
    }
    return at;
  }

  #take(bytes: Buffer, at: number, end: number): void {
    const type = bytes[at + 3];
    const flags = bytes[at + 4] ?? 0;
    if (type === FRAME.data || type === FRAME.headers) {
      const stream = numberAt(bytes, at + STREAM_AT);
      if (type === FRAME.data) this.#data(bytes, at + FRAME_HEAD, end, stream);
      if ((flags & END_STREAM) !== 0) this.#ended(stream);
    } else if (type === FRAME.window) {
      // The first window of a stream is always wide enough for one request.
      if (numberAt(bytes, at + STREAM_AT) === 0) this.#window += numberAt(bytes, at + FRAME_HEAD);
    } else if (type === FRAME.settings && (flags & ACK) === 0) {
      this.#frame(FRAME.settings, ACK, NOTHING);
    } else if (type === FRAME.ping && (flags & ACK) === 0) {
      this.#frame(FRAME.ping, ACK, bytes.subarray(at + FRAME_HEAD, end));
    } else if (type === FRAME.reset || type === FRAME.goaway) {
      this.#events.failed(`frame of type ${type}`);
    }
  }

  #data(bytes: Buffer, start: number, end: number, stream: number): void {
    const size = end - start;
    const slot = (stream >>> 1) & this.#mask;
    this.#sizes[slot] = (this.#sizes[slot] ?? 0) + size;
    if (this.#samples.size > 0)
      this.#samples.get(stream)?.push(Buffer.from(bytes.subarray(start, end)));
    this.#unacknowledged += size;
    if (this.#unacknowledged < WIDE / 2) return;
    this.#widen(this.#unacknowledged);
    this.#unacknowledged = 0;
  }

  /** A failed unary call has trailers and no message, so a message means success. */
  #ended(stream: number): void {
    const slot = (stream >>> 1) & this.#mask;
    const { prefix } = this.#request;
    const message = (this.#sizes[slot] ?? 0) - prefix;
    if (message <= 0) this.#events.failed("a call ended without a message");
    this.inFlight--;
    this.received += message;
    let sample: Buffer | undefined;
    if (this.#samples.size > 0) {
      const parts = this.#samples.get(stream);
      this.#samples.delete(stream);
      sample = parts === undefined ? undefined : Buffer.concat(parts).subarray(prefix);
    }
    this.#events.answered(this.#tags[slot] ?? 0, sample);
  }

  /** Sends a frame on stream 0. */
  #frame(type: number, flags: number, payload: Buffer): void {
    const frame = Buffer.concat([head(payload.length, type, flags), payload]);
    const at = this.#out.take(frame.length);
    this.#out.bytes.set(frame, at);
  }

  #widen(by: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(by);
    this.#frame(FRAME.window, 0, payload);
  }
}

function head(length: number, type: number, flags: number): Buffer {
  const bytes = Buffer.alloc(FRAME_HEAD);
  bytes.writeUIntBE(length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  return bytes;
}

function lengthOf(bytes: Buffer, at: number): number {
  return ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
}

function numberAt(bytes: Buffer, at: number): number {
  const high = ((bytes[at] ?? 0) & 0x7f) << 24;
  return high | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
}

function putNumber(value: number, bytes: Buffer, at: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}
