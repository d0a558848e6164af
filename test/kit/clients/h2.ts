// A raw HTTP/2 client (RFC 9113): writes any bytes to a real socket and keeps every frame that it receives. Also
// builders for frames, calls and field lists.

import { connect, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { block, type Field, HpackDecoder } from "./hpack.ts";

export const DATA = 0;
export const HEADERS = 1;
export const PRIORITY = 2;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PUSH_PROMISE = 5;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;

export const END_STREAM = 0x1;
export const ACK = 0x1;
export const END_HEADERS = 0x4;
export const PADDED = 0x8;
export const WITH_PRIORITY = 0x20;

/** Names of the error codes, by code (RFC 9113 §7). */
export const CODES = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
  "CONNECT_ERROR",
  "ENHANCE_YOUR_CALM",
  "INADEQUATE_SECURITY",
  "HTTP_1_1_REQUIRED",
] as const;
export type ErrorName = (typeof CODES)[number];

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
/** Initial value of SETTINGS_MAX_FRAME_SIZE: the largest payload that any peer accepts. */
export const MAX_FRAME_SIZE = 16_384;
const EMPTY = new Uint8Array();
const WAIT_MS = 40_000;

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Any frame; `length` may differ from the payload's length. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = EMPTY,
  length = payload.length,
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export function settings(...pairs: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * pairs.length);
  for (const [at, [id, value]] of pairs.entries()) {
    payload.writeUInt16BE(id, at * 6);
    payload.writeUInt32BE(value, at * 6 + 2);
  }
  return frame(SETTINGS, 0, 0, payload);
}

/** A payload with its pad length and `padding` bytes of padding, for a frame with the PADDED flag. */
export const padded = (payload: Uint8Array, padding: number): Buffer =>
  Buffer.concat([Buffer.of(padding), payload, Buffer.alloc(padding)]);

export const headers = (stream: number, payload: Uint8Array, flags = END_HEADERS): Buffer =>
  frame(HEADERS, flags, stream, payload);
export const data = (stream: number, payload: Uint8Array = EMPTY, flags = 0): Buffer =>
  frame(DATA, flags, stream, payload);
export const reset = (stream: number, code = 8): Buffer =>
  frame(RST_STREAM, 0, stream, uint32(code));
export const windowUpdate = (stream: number, more: number): Buffer =>
  frame(WINDOW_UPDATE, 0, stream, uint32(more));
export const priority = (stream: number, on = 0): Buffer =>
  frame(PRIORITY, 0, stream, Buffer.concat([uint32(on), Buffer.of(15)]));
export const ping = (text = "attacker"): Buffer => frame(PING, 0, 0, Buffer.from(text, "latin1"));

/** HEADERS and as many CONTINUATION frames as the field block needs. */
export function headerFrames(stream: number, block: Uint8Array, flags = END_STREAM): Buffer {
  if (block.length <= MAX_FRAME_SIZE) return headers(stream, block, flags | END_HEADERS);
  const parts = [headers(stream, block.subarray(0, MAX_FRAME_SIZE), flags)];
  for (let at = MAX_FRAME_SIZE; at < block.length; at += MAX_FRAME_SIZE) {
    const last = at + MAX_FRAME_SIZE >= block.length ? END_HEADERS : 0;
    parts.push(frame(CONTINUATION, last, stream, block.subarray(at, at + MAX_FRAME_SIZE)));
  }
  return Buffer.concat(parts);
}

/** Request fields of a gRPC call. */
export const grpcFields = (path: string, ...more: readonly Field[]): readonly Field[] => [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", path],
  [":authority", "test"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
  ...more,
];

/** Request fields of an HTTP request. */
export const httpFields = (method: string, path: string, ...more: readonly Field[]) =>
  [
    [":method", method],
    [":scheme", "http"],
    [":path", path],
    [":authority", "test"],
    ...more,
  ] satisfies readonly Field[];

/** A gRPC message with its five-byte prefix, as DATA frames carry it. */
export const message = (bytes: Uint8Array = EMPTY, compressed = 0): Buffer =>
  Buffer.concat([Buffer.of(compressed), uint32(bytes.length), bytes]);

/** The bytes, repeated. */
export const repeated = (bytes: Uint8Array, times: number): Buffer =>
  Buffer.alloc(bytes.length * times, bytes);

/** All frames of a unary call. */
export const call = (stream: number, path: string, bytes: Uint8Array = EMPTY): Buffer =>
  Buffer.concat([
    headers(stream, block(grpcFields(path))),
    data(stream, message(bytes), END_STREAM),
  ]);

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
  /** The decoded field block, if this frame ends one. */
  readonly fields: readonly Field[] | undefined;
}

/** The end of one stream. */
export interface Outcome {
  readonly head: Readonly<Record<string, string>>;
  readonly trailers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Error code with which the stream was reset, or with which the connection ended before the reply was complete. */
  readonly reset: ErrorName | "closed" | undefined;
}

export interface RawOptions {
  /** Frames sent after the preface; by default an empty SETTINGS frame. null sends neither preface nor frames. */
  readonly initialFrames?: Uint8Array | null;
  /** Connects over TLS with these options. */
  readonly tls?: ConnectionOptions;
  /** Reads nothing from the socket until `listen`. */
  readonly paused?: boolean;
}

export class RawPeer {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  /** Resolves when the connection has ended, whichever side ended it. */
  readonly closed: Promise<void>;
  ended = false;
  /** Number of DATA payload bytes received. */
  received = 0;
  /** DATA frames are only counted, not kept. */
  discardBodies = false;
  /** Newest stream id that `nextStream` returned. */
  lastStream = -1;
  #rest: Buffer = Buffer.alloc(0);
  #block: Buffer[] = [];
  readonly #decoder = new HpackDecoder();
  readonly #waiters = new Set<() => void>();

  constructor(socket: Socket, paused = false) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.on("close", () => {
        this.ended = true;
        resolve();
        this.#wake();
      });
    });
    // A TCP reset by the server is an ordinary end, which `closed` reports.
    socket.on("error", () => undefined);
    if (!paused) this.listen();
  }

  /** Begins to read from the socket. */
  listen(): void {
    if (this.socket.listenerCount("data") > 0) return;
    this.socket.on("data", (chunk: Buffer) => this.#read(chunk));
  }

  /** Writes bytes; resolves when the kernel has accepted all of them or the connection has ended. */
  send(...bodyBytes: readonly Uint8Array[]): Promise<void> {
    return new Promise((resolve) => {
      if (this.ended || !this.socket.writable) resolve();
      else this.socket.write(Buffer.concat(bodyBytes), () => resolve());
    });
  }

  /** The next client stream id. */
  nextStream(): number {
    this.lastStream += 2;
    return this.lastStream;
  }

  /** The bytes that `make` returns for each of this many new streams. */
  onNewStreams(streams: number, make: (stream: number) => Uint8Array): Buffer {
    return Buffer.concat(Array.from({ length: streams }, () => make(this.nextStream())));
  }

  /** The first frame that satisfies the predicate, received already or in future. */
  async frame(what: string, fits: (frame: Frame) => boolean): Promise<Frame> {
    let found: Frame | undefined;
    await this.#until(what, () => {
      found = this.frames.find(fits);
      return found !== undefined;
    });
    if (found === undefined) throw new Error(`${what}: not among ${this.describeFrames()}`);
    return found;
  }

  /** Waits for GOAWAY and returns its error code; "closed" when the connection ended without one. */
  async goaway(): Promise<ErrorName | "closed"> {
    await this.#until("GOAWAY or the end", () => this.ended || this.#goawayCode() !== undefined);
    return this.#goawayCode() ?? "closed";
  }

  /** Increments of a stream's WINDOW_UPDATE frames from the one with index `from` on; waits for at least one. */
  async windowUpdates(stream: number, from: number): Promise<readonly number[]> {
    const updates = () =>
      this.frames
        .filter((is) => is.type === WINDOW_UPDATE && is.stream === stream)
        .slice(from)
        .map(({ payload }) => payload.readUInt32BE(0));
    await this.#until(`WINDOW_UPDATE of stream ${stream}`, () => updates().length > 0);
    return updates();
  }

  /** Waits until this many DATA payload bytes were received. */
  async bytes(count: number): Promise<void> {
    await this.#until(`${count} bytes`, () => this.received >= count);
  }

  /** Waits for `other` or GOAWAY: the server may end the connection before `other` can happen. */
  async goawayOr(other: Promise<unknown>): Promise<void> {
    await Promise.race([this.goaway(), other]);
  }

  /** Waits for the first RST_STREAM of a stream and returns its error code. */
  async reset(stream: number): Promise<ErrorName | undefined> {
    return nameOf(
      (await this.frame("RST_STREAM", (is) => is.type === RST_STREAM && is.stream === stream))
        .payload,
      0,
    );
  }

  /** Waits until a stream has ended in any way. */
  async outcome(stream: number): Promise<Outcome> {
    await this.#until(`stream ${stream}`, () => this.ended || this.#streamEnded(stream));
    return this.outcomeSoFar(stream);
  }

  outcomeSoFar(stream: number): Outcome {
    const own = this.frames.filter((is) => is.stream === stream);
    const blocks = own.flatMap(({ fields }) => (fields === undefined ? [] : [fields]));
    const broken = own.find(({ type }) => type === RST_STREAM);
    const whole = own.some((is) => ends(is));
    const lost = this.ended && !whole ? (this.#goawayCode() ?? "closed") : undefined;
    return {
      head: Object.fromEntries(blocks[0] ?? []),
      trailers: Object.fromEntries(blocks[1] ?? []),
      body: Buffer.concat(own.filter(({ type }) => type === DATA).map(({ payload }) => payload)),
      reset: broken === undefined ? lost : nameOf(broken.payload, 0),
    };
  }

  /** Makes a unary call and returns its grpc-status, "" if there was none. */
  async unary(path: string, bytes: Uint8Array = EMPTY): Promise<string> {
    const stream = this.nextStream();
    await this.send(call(stream, path, bytes));
    return grpcStatus(await this.outcome(stream));
  }

  /** Sends a PING and waits for its ACK, so that the server has processed everything sent before. */
  async pingRoundTrip(): Promise<void> {
    const already = this.frames.filter(isPong).length;
    await this.send(ping("are-here"));
    await this.#until("PING ACK", () => this.ended || this.frames.filter(isPong).length > already);
  }

  /** Describes the frames received, for error messages. */
  describeFrames(): string {
    const newest = this.frames.slice(-20).map(({ type, flags, stream, payload }) => {
      const code =
        type === GOAWAY ? nameOf(payload, 4) : type === RST_STREAM ? nameOf(payload, 0) : "";
      return `${type}/${flags} on ${stream} ${code}`;
    });
    return `${this.frames.length} frames, the newest: ${newest.join("; ")}`;
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    if (holds()) return;
    await new Promise<void>((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiters.delete(look);
      };
      const look = () => {
        if (!holds() && !this.ended) return;
        done();
        resolve();
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`${what}: not within ${WAIT_MS} ms; ${this.describeFrames()}`));
      }, WAIT_MS);
      this.#waiters.add(look);
    });
  }

  #streamEnded(stream: number): boolean {
    return this.frames.some((is) => is.stream === stream && (is.type === RST_STREAM || ends(is)));
  }

  #goawayCode(): ErrorName | undefined {
    const last = this.frames.findLast(({ type }) => type === GOAWAY);
    return last === undefined ? undefined : nameOf(last.payload, 4);
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= 9) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (bytes.length < end) break;
      this.#keep(bytes, at, end);
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    this.#wake();
  }

  #keep(bytes: Buffer, at: number, end: number): void {
    const type = bytes[at + 3] ?? 0;
    const flags = bytes[at + 4] ?? 0;
    const payload = Buffer.from(bytes.subarray(at + 9, end));
    const stream = bytes.readUInt32BE(at + 5);
    let fields: readonly Field[] | undefined;
    if (type === HEADERS || type === CONTINUATION) {
      this.#block.push(payload);
      if ((flags & END_HEADERS) !== 0) {
        fields = this.#decoder.decode(Buffer.concat(this.#block));
        this.#block = [];
      }
    }
    if (type === DATA) this.received += payload.length;
    if (type !== DATA || !this.discardBodies)
      this.frames.push({ type, flags, stream, payload, fields });
  }
}

function ends({ type, flags }: Frame): boolean {
  return (type === DATA || type === HEADERS) && (flags & END_STREAM) !== 0;
}

function isPong({ type, flags, payload }: Frame): boolean {
  return type === PING && flags === ACK && payload.toString("latin1") === "are-here";
}

function nameOf(payload: Buffer, at: number): ErrorName {
  return CODES[payload.readUInt32BE(at)] ?? "NO_ERROR";
}

/** grpc-status of a reply, from its trailers or its trailers-only response. */
export function grpcStatus({ head, trailers }: Outcome): string {
  return trailers["grpc-status"] ?? head["grpc-status"] ?? "";
}

/** Connects to `host:port`; the connection is destroyed when the test ends. */
export async function rawPeer(
  test: TestContext,
  address: string,
  { initialFrames = settings(), tls, paused = false }: RawOptions = {},
): Promise<RawPeer> {
  const [host = "", port = ""] = address.split(":");
  const to = { host, port: Number(port), noDelay: true };
  const socket = tls === undefined ? connect(to) : connectTls({ ...to, ...tls });
  const peer = new RawPeer(socket, paused);
  test.after(() => socket.destroy());
  await new Promise<void>((resolve) => {
    socket.once(tls === undefined ? "connect" : "secureConnect", resolve);
    socket.once("close", () => resolve());
  });
  if (initialFrames !== null) await peer.send(PREFACE, initialFrames);
  return peer;
}
