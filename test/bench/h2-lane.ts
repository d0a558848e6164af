// Unary gRPC calls over cleartext HTTP/2 (RFC 9113) with as little work per call as can be: header blocks are
// constant after the first (all fields then stand in the dynamic table, as with real proxies), replies are
// counted by their frames.

import type { Socket } from "node:net";
import {
  dial,
  type Lane,
  type LaneEvents,
  type OpenLane,
  Outgoing,
  SAMPLE_EVERY,
  Template,
} from "./lane.ts";

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
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const WIDE = 0x7fffffff;
const FIRST_WINDOW = 65_535;
/** Calls in flight are remembered by the low bits of their stream. */
const REMEMBERED = 8_192;

export interface GrpcRequest {
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The message, with a place for the key. */
  readonly message: Buffer;
}

export function h2Lanes({ path, metadata, message }: GrpcRequest): OpenLane {
  const fields: readonly (readonly [string, string])[] = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "sluice"],
    ["te", "trailers"],
    ["content-type", "application/grpc"],
    ...Object.entries(metadata),
  ];
  const first = Buffer.concat(fields.map(([name, value]) => literal(name, value)));
  // The last field that was added has index 62, the first one the highest (RFC 7541 §2.3.3).
  const later = Buffer.from(fields.map((_, at) => 0x80 | (62 + fields.length - 1 - at)));
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  const body = new Template(Buffer.concat([prefix, message]));
  return async (target, events) => new H2Lane(await dial(target), events, { first, later, body });
}

/** Literal with incremental indexing, new name, no Huffman code (RFC 7541 §6.2.1). */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0x40]), text(name), text(value)]);
}

function text(value: string): Buffer {
  if (value.length >= 127) throw new Error("a header longer than the bench needs");
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value, "latin1")]);
}

interface Call {
  readonly first: Buffer;
  readonly later: Buffer;
  readonly body: Template;
}

class H2Lane implements Lane {
  readonly #socket: Socket;
  readonly #out: Outgoing;
  readonly #events: LaneEvents;
  readonly #call: Call;
  readonly #tags = new Float64Array(REMEMBERED);
  readonly #sizes = new Uint32Array(REMEMBERED);
  readonly #samples = new Map<number, Buffer[]>();
  #stream = -1;
  #window = FIRST_WINDOW;
  #received = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, events: LaneEvents, call: Call) {
    this.#socket = socket;
    this.#out = new Outgoing(socket);
    this.#events = events;
    this.#call = call;
    const settings = Buffer.alloc(12);
    settings.writeUInt16BE(4, 0); // INITIAL_WINDOW_SIZE: replies never wait for us
    settings.writeUInt32BE(WIDE, 2);
    settings.writeUInt16BE(2, 6); // ENABLE_PUSH 0
    socket.write(PREFACE);
    this.#frame(FRAME.settings, 0, 0, settings);
    this.#widen(WIDE - FIRST_WINDOW);
    this.#out.flush();
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (cause) => events.failed(cause.message));
  }

  ready(): boolean {
    return this.#window >= this.#call.body.length;
  }

  send(tag: number, key: number): void {
    const { first, later, body } = this.#call;
    const block = this.#stream < 0 ? first : later;
    this.#stream += 2;
    const stream = this.#stream;
    const slot = (stream >>> 1) % REMEMBERED;
    this.#tags[slot] = tag;
    this.#sizes[slot] = 0;
    if ((stream >>> 1) % SAMPLE_EVERY === 0) this.#samples.set(stream, []);
    this.#frame(FRAME.headers, END_HEADERS, stream, block);
    const { bytes, at } = this.#out.room(FRAME_HEAD + body.length);
    body.put(key, bytes, head(bytes, at, body.length, FRAME.data, END_STREAM, stream));
    this.#window -= body.length;
  }

  flush(): void {
    this.#out.flush();
  }

  close(): void {
    this.#socket.removeAllListeners("error");
    this.#socket.on("error", () => undefined);
    this.#socket.destroy();
  }

  #frame(type: number, flags: number, stream: number, payload: Buffer): void {
    const { bytes, at } = this.#out.room(FRAME_HEAD + payload.length);
    bytes.set(payload, head(bytes, at, payload.length, type, flags, stream));
  }

  #widen(by: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(by);
    this.#frame(FRAME.window, 0, 0, payload);
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (at + FRAME_HEAD <= bytes.length) {
      const length = bytes.readUIntBE(at, 3);
      const end = at + FRAME_HEAD + length;
      if (end > bytes.length) break;
      this.#take(bytes, at + FRAME_HEAD, end, bytes[at + 3] ?? 0, bytes[at + 4] ?? 0, at + 5);
      at = end;
    }
    this.#rest = bytes.subarray(at);
    this.#events.rest(this);
    this.flush();
  }

  #take(bytes: Buffer, start: number, end: number, type: number, flags: number, id: number): void {
    const stream = bytes.readUInt32BE(id) & WIDE;
    if (type === FRAME.data) this.#data(bytes, start, end, stream);
    if ((type === FRAME.data || type === FRAME.headers) && (flags & END_STREAM) !== 0) {
      this.#ended(stream);
    } else if (type === FRAME.window && stream === 0) this.#window += bytes.readUInt32BE(start);
    else if (type === FRAME.settings && (flags & ACK) === 0) {
      this.#frame(FRAME.settings, ACK, 0, Buffer.alloc(0));
    } else if (type === FRAME.ping && (flags & ACK) === 0) {
      this.#frame(FRAME.ping, ACK, 0, bytes.subarray(start, end));
    } else if (type === FRAME.reset || type === FRAME.goaway) {
      this.#events.failed(`frame of type ${type}`);
    }
  }

  #data(bytes: Buffer, start: number, end: number, stream: number): void {
    const slot = (stream >>> 1) % REMEMBERED;
    this.#sizes[slot] = (this.#sizes[slot] ?? 0) + end - start;
    if (this.#samples.size > 0)
      this.#samples.get(stream)?.push(Buffer.from(bytes.subarray(start, end)));
    this.#received += end - start;
    if (this.#received < WIDE / 2) return;
    this.#widen(this.#received);
    this.#received = 0;
  }

  /** A unary call that fails has no message, only trailers: so a message means status 0. */
  #ended(stream: number): void {
    const slot = (stream >>> 1) % REMEMBERED;
    if ((this.#sizes[slot] ?? 0) <= 5) this.#events.failed("a call ended without a message");
    const parts = this.#samples.get(stream);
    this.#samples.delete(stream);
    const sample = parts === undefined ? undefined : Buffer.concat(parts).subarray(5);
    this.#events.answered(this, this.#tags[slot] ?? 0, sample);
  }
}

function head(
  bytes: Buffer,
  at: number,
  length: number,
  type: number,
  flags: number,
  stream: number,
): number {
  bytes.writeUIntBE(length, at, 3);
  bytes[at + 3] = type;
  bytes[at + 4] = flags;
  return bytes.writeUInt32BE(stream, at + 5);
}
