// An HTTP/2 stream without a connection: records what an exchange sends, and fails the test if that is not a valid
// reply.

import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import type { Held } from "#base/handler.ts";
import type { FixedBlock, RequestHead, RequestStream } from "#h2/exchange.ts";

export interface StreamOptions {
  /** Most bytes that may be buffered. */
  readonly maxHeld?: number;
  /** Initial send window, bytes. */
  readonly window?: number;
}

/** The reply as the caller sees it. */
export interface ReceivedReply {
  readonly status: number;
  /** grpc-status, from the trailers or a trailers-only response. */
  readonly code: number | undefined;
  readonly message: string;
  readonly head: Readonly<Record<string, string>>;
  readonly trailers: Readonly<Record<string, string>> | undefined;
  readonly messages: readonly Buffer[];
}

export class RecordingStream implements RequestStream {
  readonly peer = "10.1.2.3";
  readonly blocks: (readonly string[])[] = [];
  /** Error codes of the RST_STREAM frames sent. */
  cancelled = false;
  /** The slots that replies leave taken until the peer confirms them. */
  readonly unconfirmed: Held[] = [];
  localClosed = false;
  held = 0;
  credited = 0;
  /** Number of broken calls charged to the peer's abuse budget. */
  charged = 0;
  /** A handler is at work. */
  working = false;
  /** Number of replies sent complete by one `answer`. */
  answers = 0;
  #body = Buffer.alloc(0);
  #window: number;
  readonly #most: number;

  constructor({
    maxHeld = Number.POSITIVE_INFINITY,
    window = Number.POSITIVE_INFINITY,
  }: StreamOptions = {}) {
    this.#most = maxHeld;
    this.#window = window;
  }

  get socket(): Duplex {
    return new Duplex();
  }

  respond(
    head: FixedBlock,
    more: readonly string[] | undefined,
    lead: Uint8Array,
    body: Uint8Array,
    trailers: FixedBlock,
  ): void {
    this.answers++;
    this.headers([...head.fields, ...(more ?? [])], false);
    this.write(lead, false);
    this.write(body, false);
    this.headers(trailers.fields, true);
  }

  headers(fields: readonly string[], last: boolean): void {
    assert.ok(!this.localClosed, "HEADERS after the end of the stream");
    assert.ok(this.blocks.length === 0 || last, "a second field block must be trailers");
    const pseudo = fields.filter((name, at) => at % 2 === 0 && name.startsWith(":"));
    assert.deepEqual(pseudo, this.blocks.length === 0 ? [":status"] : []);
    for (const text of fields) assert.match(text, /^[ -~]*$/);
    this.blocks.push([...fields]);
    if (last) this.#close();
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    assert.ok(
      !this.localClosed && this.blocks.length === 1,
      "DATA before HEADERS or after the end of the stream",
    );
    this.#body = Buffer.concat([this.#body, bytes]);
    this.#window -= bytes.length;
    if (last) this.#close();
    return this.#window >= 0;
  }

  releaseIfUndelivered(held: Held): void {
    this.unconfirmed.push(held);
  }

  /** The peer sends WINDOW_UPDATE. */
  grantWindow(by: number): void {
    this.#window += by;
  }

  cancel(): void {
    this.cancelled = true;
    this.#close();
  }

  /** The peer resets the stream. */
  resetByPeer(): void {
    this.#close();
  }

  extendReceiveWindow(bytes: number): void {
    this.credited += bytes;
  }

  reserve(bytes: number): boolean {
    if (this.localClosed || this.held + bytes > this.#most) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    if (this.localClosed) return;
    assert.ok(bytes <= this.held, "more bytes released than were buffered");
    this.held -= bytes;
  }

  charge(calls: number): void {
    this.charged += calls;
  }

  handlerStarted(): void {
    this.working = true;
  }

  handlerFinished(): void {
    assert.ok(this.working, "rest() without work()");
    this.working = false;
  }

  get reply(): ReceivedReply {
    const [head, trailers] = this.blocks.map(record);
    const status = trailers ?? head;
    const code = status?.["grpc-status"];
    return {
      status: Number(head?.[":status"]),
      code: code === undefined ? undefined : Number(code),
      message: decodeURIComponent(status?.["grpc-message"] ?? ""),
      head: head ?? {},
      trailers,
      messages: split(this.#body),
    };
  }

  #close(): void {
    this.localClosed = true;
    this.held = 0;
  }
}

function record(fields: readonly string[]): Record<string, string> {
  const entries: [string, string][] = [];
  for (let at = 0; at < fields.length; at += 2)
    entries.push([fields[at] ?? "", fields[at + 1] ?? ""]);
  assert.equal(new Set(entries.map(([name]) => name)).size, entries.length, "a field occurs twice");
  return Object.fromEntries(entries);
}

function split(body: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    assert.equal(body[at], 0, "a reply message is flagged as compressed");
    const end = at + 5 + body.readUInt32BE(at + 1);
    assert.ok(end <= body.length, "a reply message is cut short");
    messages.push(body.subarray(at + 5, end));
    at = end;
  }
  return messages;
}

/** A gRPC message with its five-byte prefix. */
export function framed(message: Uint8Array | string, flag = 0): Buffer {
  const bytes = Buffer.from(message);
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Head of a gRPC request; `fields` alternates names and values. */
export function grpcHead(
  path: string,
  fields: readonly string[] = [],
  over: Partial<RequestHead> = {},
): RequestHead {
  return {
    method: "POST",
    path,
    scheme: "http",
    authority: "localhost",
    fields: ["content-type", "application/grpc", "te", "trailers", ...fields],
    size: 0,
    flaw: undefined,
    contentLength: -1,
    memo: undefined,
    ...over,
  };
}
