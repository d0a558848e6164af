// A raw HTTP/2 peer (RFC 9113): writes any bytes to a real socket, and keeps every frame that comes back.

import { connect, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { block, type Field, Unpacker } from "./hpack-raw.ts";

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

/** Error codes by the names of RFC 9113 §7. */
export const CODES = [
  ...["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT"],
  ...["STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR"],
  ...["CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"],
] as const;
export type ErrorName = (typeof CODES)[number];

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
/** Largest payload of a frame that may be sent unasked. */
export const FULL = 16_384;
const NONE = new Uint8Array();
const WAIT_MS = 40_000;

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Any frame; `length` may lie. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = NONE,
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

/** A payload with `padding` more bytes, as the PADDED flag says it. */
export const padded = (payload: Uint8Array, padding: number): Buffer =>
  Buffer.concat([Buffer.of(padding), payload, Buffer.alloc(padding)]);

export const headers = (stream: number, payload: Uint8Array, flags = END_HEADERS): Buffer =>
  frame(HEADERS, flags, stream, payload);
export const data = (stream: number, payload: Uint8Array = NONE, flags = 0): Buffer =>
  frame(DATA, flags, stream, payload);
export const reset = (stream: number, code = 8): Buffer =>
  frame(RST_STREAM, 0, stream, uint32(code));
export const windowUpdate = (stream: number, more: number): Buffer =>
  frame(WINDOW_UPDATE, 0, stream, uint32(more));
export const priority = (stream: number, on = 0): Buffer =>
  frame(PRIORITY, 0, stream, Buffer.concat([uint32(on), Buffer.of(15)]));
export const ping = (text = "attacker"): Buffer => frame(PING, 0, 0, Buffer.from(text, "latin1"));

/** A header block of any size in as many frames as it needs. */
export function inFrames(stream: number, whole: Uint8Array, flags = END_STREAM): Buffer {
  if (whole.length <= FULL) return headers(stream, whole, flags | END_HEADERS);
  const parts = [headers(stream, whole.subarray(0, FULL), flags)];
  for (let at = FULL; at < whole.length; at += FULL) {
    const last = at + FULL >= whole.length ? END_HEADERS : 0;
    parts.push(frame(CONTINUATION, last, stream, whole.subarray(at, at + FULL)));
  }
  return Buffer.concat(parts);
}

/** Fields of a gRPC call. */
export const grpcFields = (path: string, ...more: readonly Field[]): readonly Field[] => [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", path],
  [":authority", "test"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
  ...more,
];

/** Fields of an HTTP request. */
export const httpFields = (method: string, path: string, ...more: readonly Field[]) =>
  [
    [":method", method],
    [":scheme", "http"],
    [":path", path],
    [":authority", "test"],
    ...more,
  ] satisfies readonly Field[];

/** A gRPC message as it stands in data frames. */
export const message = (bytes: Uint8Array = NONE, compressed = 0): Buffer =>
  Buffer.concat([Buffer.of(compressed), uint32(bytes.length), bytes]);

/** The same bytes again and again. */
export const repeated = (bytes: Uint8Array, times: number): Buffer =>
  Buffer.alloc(bytes.length * times, bytes);

/** A whole unary call. */
export const call = (stream: number, path: string, bytes: Uint8Array = NONE): Buffer =>
  Buffer.concat([
    headers(stream, block(grpcFields(path))),
    data(stream, message(bytes), END_STREAM),
  ]);

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
  /** What a header block that ends with this frame says. */
  readonly fields: readonly Field[] | undefined;
}

/** What became of one stream. */
export interface Outcome {
  readonly head: Readonly<Record<string, string>>;
  readonly trailers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** It was reset with this code, or the connection ended with it before its reply was whole. */
  readonly reset: ErrorName | "closed" | undefined;
}

export interface RawOptions {
  /** Sent behind the preface; undefined sends an empty SETTINGS frame, null neither of both. */
  readonly greeting?: Uint8Array | null;
  /** Over TLS with these options. */
  readonly tls?: ConnectionOptions;
  /** Nothing is read from the socket until `resume`. */
  readonly deaf?: boolean;
}

export class RawPeer {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  /** Resolves when the connection has ended, whoever ended it. */
  readonly closed: Promise<void>;
  ended = false;
  /** Bytes of bodies that came. */
  received = 0;
  /** Bodies are counted, not kept. */
  forgetful = false;
  /** Newest stream that `next` gave. */
  last = -1;
  #rest: Buffer = Buffer.alloc(0);
  #block: Buffer[] = [];
  readonly #unpacker = new Unpacker();
  readonly #waiting = new Set<() => void>();

  constructor(socket: Socket, deaf = false) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.on("close", () => {
        this.ended = true;
        resolve();
        this.#wake();
      });
    });
    // A reset by the server is a way to end, which `closed` tells.
    socket.on("error", () => undefined);
    if (!deaf) this.listen();
  }

  /** Reads from the socket; before it nothing is. */
  listen(): void {
    if (this.socket.listenerCount("data") > 0) return;
    this.socket.on("data", (chunk: Buffer) => this.#read(chunk));
  }

  /** Resolves when the system has taken all of it, or the connection is gone. */
  send(...bytes: readonly Uint8Array[]): Promise<void> {
    return new Promise((resolve) => {
      if (this.ended || !this.socket.writable) resolve();
      else this.socket.write(Buffer.concat(bytes), () => resolve());
    });
  }

  /** The next stream id of a client. */
  next(): number {
    this.last += 2;
    return this.last;
  }

  /** Bytes for each of so many new streams. */
  each(streams: number, make: (stream: number) => Uint8Array): Buffer {
    return Buffer.concat(Array.from({ length: streams }, () => make(this.next())));
  }

  /** The first frame that fits, come or to come. */
  async frame(what: string, fits: (frame: Frame) => boolean): Promise<Frame> {
    let found: Frame | undefined;
    await this.#until(what, () => {
      found = this.frames.find(fits);
      return found !== undefined;
    });
    if (found === undefined) throw new Error(`${what}: not among ${this.told()}`);
    return found;
  }

  /** The code of the server's last word on the connection; "closed" when it ended without one. */
  async goaway(): Promise<ErrorName | "closed"> {
    await this.#until("GOAWAY or the end", () => this.ended || this.#ending() !== undefined);
    return this.#ending() ?? "closed";
  }

  /** By how much a stream's window was widened, from the update of that number on; waits for at least one. */
  async widened(stream: number, from: number): Promise<readonly number[]> {
    const updates = () =>
      this.frames
        .filter((is) => is.type === WINDOW_UPDATE && is.stream === stream)
        .slice(from)
        .map(({ payload }) => payload.readUInt32BE(0));
    await this.#until(`WINDOW_UPDATE of stream ${stream}`, () => updates().length > 0);
    return updates();
  }

  /** Waits for so many bytes of bodies. */
  async bytes(count: number): Promise<void> {
    await this.#until(`${count} bytes`, () => this.received >= count);
  }

  /** Waits for `other`, which may not come when the server ends the connection first. */
  async goawayOr(other: Promise<unknown>): Promise<void> {
    await Promise.race([this.goaway(), other]);
  }

  /** The code of the first reset of a stream. */
  async reset(stream: number): Promise<ErrorName | undefined> {
    return nameOf(
      (await this.frame("RST_STREAM", (is) => is.type === RST_STREAM && is.stream === stream))
        .payload,
      0,
    );
  }

  /** Waits until a stream has ended in one way or another. */
  async outcome(stream: number): Promise<Outcome> {
    await this.#until(`stream ${stream}`, () => this.ended || this.#over(stream));
    return this.outcomeSoFar(stream);
  }

  outcomeSoFar(stream: number): Outcome {
    const own = this.frames.filter((is) => is.stream === stream);
    const blocks = own.flatMap(({ fields }) => (fields === undefined ? [] : [fields]));
    const broken = own.find(({ type }) => type === RST_STREAM);
    const whole = own.some((is) => ends(is));
    const lost = this.ended && !whole ? (this.#ending() ?? "closed") : undefined;
    return {
      head: Object.fromEntries(blocks[0] ?? []),
      trailers: Object.fromEntries(blocks[1] ?? []),
      body: Buffer.concat(own.filter(({ type }) => type === DATA).map(({ payload }) => payload)),
      reset: broken === undefined ? lost : nameOf(broken.payload, 0),
    };
  }

  /** Makes a unary call; the reply's status, "" when none came. */
  async unary(path: string, bytes: Uint8Array = NONE): Promise<string> {
    const stream = this.next();
    await this.send(call(stream, path, bytes));
    return grpcStatus(await this.outcome(stream));
  }

  /** Resolves when the server has answered everything that was sent before. */
  async pong(): Promise<void> {
    const already = this.frames.filter(isPong).length;
    await this.send(ping("are-here"));
    await this.#until("PING ACK", () => this.ended || this.frames.filter(isPong).length > already);
  }

  /** All frames that came, for messages. */
  told(): string {
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
        this.#waiting.delete(look);
      };
      const look = () => {
        if (!holds() && !this.ended) return;
        done();
        resolve();
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`${what}: not within ${WAIT_MS} ms; ${this.told()}`));
      }, WAIT_MS);
      this.#waiting.add(look);
    });
  }

  #over(stream: number): boolean {
    return this.frames.some((is) => is.stream === stream && (is.type === RST_STREAM || ends(is)));
  }

  #ending(): ErrorName | undefined {
    const last = this.frames.findLast(({ type }) => type === GOAWAY);
    return last === undefined ? undefined : nameOf(last.payload, 4);
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look();
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
        fields = this.#unpacker.unpack(Buffer.concat(this.#block));
        this.#block = [];
      }
    }
    if (type === DATA) this.received += payload.length;
    if (type !== DATA || !this.forgetful)
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

/** The status of a gRPC reply, from its trailers or from a head that is all of it. */
export function grpcStatus({ head, trailers }: Outcome): string {
  return trailers["grpc-status"] ?? head["grpc-status"] ?? "";
}

/** A connection to `host:port` that is destroyed when the test ends. */
export async function rawPeer(
  test: TestContext,
  address: string,
  { greeting = settings(), tls, deaf = false }: RawOptions = {},
): Promise<RawPeer> {
  const [host = "", port = ""] = address.split(":");
  const to = { host, port: Number(port), noDelay: true };
  const socket = tls === undefined ? connect(to) : connectTls({ ...to, ...tls });
  const peer = new RawPeer(socket, deaf);
  test.after(() => socket.destroy());
  await new Promise<void>((resolve) => {
    socket.once(tls === undefined ? "connect" : "secureConnect", resolve);
    socket.once("close", () => resolve());
  });
  if (greeting !== null) await peer.send(PREFACE, greeting);
  return peer;
}
