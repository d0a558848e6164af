// A stream of HTTP/2 without HTTP/2: remembers what an exchange sends, and fails the test when it sends what no
// stream may carry.

import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import type { Head, Stream } from "#serve/h2/exchange.ts";
import type { FixedBlock } from "#serve/h2/hpack/encoder.ts";

export interface StreamOptions {
  /** Bytes that may be held. */
  readonly most?: number;
  /** Body bytes that the peer takes before it must be asked. */
  readonly window?: number;
}

/** The reply as its caller sees it. */
export interface Seen {
  readonly status: number;
  /** Of the only block, the reply's head, else of the trailers. */
  readonly code: number | undefined;
  readonly message: string;
  readonly head: Readonly<Record<string, string>>;
  readonly trailers: Readonly<Record<string, string>> | undefined;
  readonly messages: readonly Buffer[];
}

export class FakeStream implements Stream {
  readonly peer = "10.1.2.3";
  readonly blocks: (readonly string[])[] = [];
  /** Error codes of resets. */
  readonly resets: number[] = [];
  closed = false;
  held = 0;
  credited = 0;
  /** Broken calls that it was made to pay for. */
  charged = 0;
  /** Work goes on. */
  working = false;
  /** Whole replies that were sent at once. */
  answers = 0;
  #body = Buffer.alloc(0);
  #window: number;
  readonly #most: number;

  constructor({
    most = Number.POSITIVE_INFINITY,
    window = Number.POSITIVE_INFINITY,
  }: StreamOptions = {}) {
    this.#most = most;
    this.#window = window;
  }

  get socket(): Duplex {
    return new Duplex();
  }

  answer(
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
    assert.ok(!this.closed, "headers after the end");
    assert.ok(this.blocks.length === 0 || last, "only trailers follow a head");
    const pseudo = fields.filter((name, at) => at % 2 === 0 && name.startsWith(":"));
    assert.deepEqual(pseudo, this.blocks.length === 0 ? [":status"] : []);
    for (const text of fields) assert.match(text, /^[ -~]*$/);
    this.blocks.push([...fields]);
    if (last) this.#close();
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    assert.ok(!this.closed && this.blocks.length === 1, "data without a head, or after the end");
    this.#body = Buffer.concat([this.#body, bytes]);
    this.#window -= bytes.length;
    if (last) this.#close();
    return this.#window >= 0;
  }

  /** The peer takes more. */
  widen(by: number): void {
    this.#window += by;
  }

  reset(code: number): void {
    this.resets.push(code);
    this.#close();
  }

  /** The peer resets it. */
  drop(): void {
    this.#close();
  }

  credit(bytes: number): void {
    this.credited += bytes;
  }

  hold(bytes: number): boolean {
    if (this.closed || this.held + bytes > this.#most) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    if (this.closed) return;
    assert.ok(bytes <= this.held, "released more than was held");
    this.held -= bytes;
  }

  charge(calls: number): void {
    this.charged += calls;
  }

  work(): void {
    this.working = true;
  }

  rest(): void {
    assert.ok(this.working, "rest without work");
    this.working = false;
  }

  get seen(): Seen {
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
    this.closed = true;
    this.held = 0;
  }
}

function record(fields: readonly string[]): Record<string, string> {
  const entries: [string, string][] = [];
  for (let at = 0; at < fields.length; at += 2)
    entries.push([fields[at] ?? "", fields[at + 1] ?? ""]);
  assert.equal(new Set(entries.map(([name]) => name)).size, entries.length, "a field twice");
  return Object.fromEntries(entries);
}

function split(body: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    assert.equal(body[at], 0, "replies are not compressed");
    const end = at + 5 + body.readUInt32BE(at + 1);
    assert.ok(end <= body.length, "a message is cut short");
    messages.push(body.subarray(at + 5, end));
    at = end;
  }
  return messages;
}

/** A message with its prefix. */
export function framed(message: Uint8Array | string, flag = 0): Buffer {
  const bytes = Buffer.from(message);
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Head of a gRPC request; `fields` are names and values in turn. */
export function grpcHead(
  path: string,
  fields: readonly string[] = [],
  over: Partial<Head> = {},
): Head {
  return {
    method: "POST",
    path,
    scheme: "http",
    authority: "localhost",
    fields: ["content-type", "application/grpc", "te", "trailers", ...fields],
    size: 0,
    overflow: false,
    contentLength: -1,
    memo: undefined,
    ...over,
  };
}
