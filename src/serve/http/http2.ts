// An exchange over HTTP/2: one stream of the own transport that is not gRPC.

import { validateHeaderName, validateHeaderValue } from "node:http";
import { Fault } from "#base/fault.ts";
import type { Answerer, Exchange, Head, Stream } from "../h2/exchange.ts";
import { ERROR } from "../h2/frames.ts";
import { MAX_REPLY_HELD } from "../h2/limits.ts";
import type { HttpRequest } from "../handler.ts";
import { NO_BODY } from "./body.ts";
import { CONNECTION_FIELDS } from "./connection-fields.ts";
import { HttpExchange, type Surroundings, tooManyHeaders } from "./exchange.ts";
import { RequestHead } from "./head.ts";

/** A reply is handed on in parts of this size, as the stream keeps what its peer does not take. */
const PART = 64 * 1024;
/** Of a body's part: a share of its memory that is kept as it is, though the rest is kept with it. */
const WORTH_KEEPING = 0.5;

export function answererOf(around: Surroundings): Answerer {
  return (stream, head, last) => new Http2Exchange(around, stream, head, last);
}

class Http2Exchange extends HttpExchange implements Exchange {
  readonly #stream: Stream;
  readonly #head: Head;
  readonly #fields: RequestHead;
  /** The request is here whole. */
  #whole: boolean;
  /** Of the memory that body and reply take up, as the stream was told. */
  #held = 0;
  /** Of the reply's body. */
  #left: Uint8Array = NO_BODY;
  #long = false;
  /** What it counts as kept while it waits: all of it, as none is free before the last byte is sent. */
  #price = 0;

  constructor(around: Surroundings, stream: Stream, head: Head, last: boolean) {
    super(around);
    this.#stream = stream;
    this.#head = head;
    this.#fields = RequestHead.of(head);
    this.#whole = last;
    this.begin();
  }

  get httpMethod(): string {
    return this.#head.method;
  }

  get headers(): HttpRequest["headers"] {
    return this.#fields.headers;
  }

  get peer(): string {
    return this.#stream.peer;
  }

  protected get requestTarget(): string {
    return this.#head.path;
  }

  /** A reply would end the stream, and what is wrong with the rest of the request could not be said. */
  protected get unfinished(): boolean {
    return !this.#whole;
  }

  protected override get answered(): boolean {
    return super.answered || this.#stream.closed;
  }

  // --- what the stream tells

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    this.#whole = last;
    if (!this.collecting) return;
    this.part(chunk, start, end, last || end - start >= chunk.length * WORTH_KEEPING);
    if (last) this.complete();
    else if (this.collecting) {
      if (this.#hold(this.kept)) this.#stream.credit(end - start);
      else this.fail(tooMuchKept());
    }
  }

  gone(): void {
    this.ended(false);
  }

  drained(): void {
    if (this.#send()) this.ended(true);
  }

  slow(): boolean {
    if (!this.collecting) return false;
    this.fail(new Fault("DEADLINE_EXCEEDED", "the request did not arrive in time", { http: 408 }));
    return true;
  }

  // --- what the request's course asks for

  /** Which calls are still taken the connection itself says (GOAWAY): it brings no other. */
  protected judgeHead(): void {
    if (this.#head.overflow) throw tooManyHeaders();
  }

  protected collect(): void {
    if (this.#whole) this.complete();
    else if (this.#fields.expects100) this.#stream.headers([":status", "100"], false);
  }

  protected transmit(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
  ): boolean {
    const stream = this.#stream;
    const head = [":status", String(status)];
    for (let at = 0; at < fields.length; at += 2) addField(head, fields[at], fields[at + 1]);
    this.#hold(0);
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const bare = bytes.length === 0 || this.httpMethod === "HEAD";
    stream.headers(head, bare);
    if (bare) return true;
    this.#left = bytes;
    this.#long = bytes.length > PART;
    this.#price = Math.min(bytes.length, MAX_REPLY_HELD);
    return this.#send();
  }

  protected refuseRest(): void {}

  protected cut(): void {
    const { closed } = this.#stream;
    if (!closed) this.#stream.reset(ERROR.cancel);
    this.ended(closed);
  }

  protected waits(reply: Promise<unknown>): void {
    const stream = this.#stream;
    stream.work();
    // The body is the handler's until it is done, even if its reply comes too late.
    const fits = this.#hold(this.kept);
    const kept = this.#held;
    this.#held = 0;
    if (!fits) this.fail(tooMuchKept());
    const rest = () => {
      stream.release(kept);
      stream.rest();
    };
    reply.then(rest, rest);
  }

  /**
   * Sends on until the peer takes no more now; true when there is nothing left here. Of a long reply the end is
   * sent by itself, as the stream says when there is room again, but not when it has ended.
   */
  #send(): boolean {
    const stream = this.#stream;
    const short = this.#long ? 0 : PART;
    let left = this.#left;
    while (!stream.closed) {
      const last = left.length <= short;
      const more = stream.write(last ? left : left.subarray(0, PART), last);
      if (last) return true;
      left = left.subarray(PART);
      if (more) continue;
      this.#left = left;
      if (!this.#hold(this.#price)) this.cut();
      return stream.closed;
    }
    return true;
  }

  /** Keeps account of the memory that the body takes up. */
  #hold(bytes: number): boolean {
    const more = bytes - this.#held;
    if (more > 0 && !this.#stream.hold(more)) return false;
    if (more < 0) this.#stream.release(-more);
    this.#held = bytes;
    return true;
  }
}

function addField(head: string[], given = "", value = ""): void {
  const name = given.toLowerCase();
  if (CONNECTION_FIELDS.has(name)) return;
  validateHeaderName(name);
  validateHeaderValue(name, value);
  head.push(name, value);
}

function tooMuchKept(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many requests are being read", { http: 503 });
}
