// An exchange over HTTP/2: a stream of Sluice's transport that is not gRPC.

import { Fault } from "#base/fault.ts";
import type { Held, HttpRequest } from "#base/handler.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import type { Exchange, RequestHandler, RequestHead, RequestStream } from "#h2/exchange.ts";
import { CONNECTION_FIELDS } from "#h2/exchange.ts";
import { MAX_BUFFERED_PER_CONNECTION } from "#h2/limits.ts";
import { validateHeaderName, validateHeaderValue } from "#runtime/life/node-http.ts";
import { NO_BODY } from "../body.ts";
import type { HttpContext } from "../context.ts";
import { HttpExchange } from "../exchange.ts";
import { Http2Headers } from "./headers.ts";

/**
 * The most that an unread reply counts as buffered, however long it is: one peer may ask for three long replies at
 * once, and 23 of them at most wait in the whole process, each with its call and 64 KiB in transit.
 */
export const MAX_BUFFERED_PER_REPLY = MAX_BUFFERED_PER_CONNECTION / 4;
/** Replies are written in parts of this size, as the stream buffers data that its peer does not accept. */
const PART_SIZE = 64 * 1024;
/** A body part is kept without copying if it is at least this share of its memory. */
const MIN_SHARE_TO_KEEP = 0.5;

export function http2RequestHandler(context: HttpContext): RequestHandler {
  return (stream, head, last) => new Http2Exchange(context, stream, head, last);
}

class Http2Exchange extends HttpExchange implements Exchange {
  readonly #stream: RequestStream;
  readonly #head: RequestHead;
  readonly #fields: Http2Headers;
  /** The request is complete. */
  #requestComplete: boolean;
  /** Bytes reserved from the stream for body and reply. */
  #reserved = 0;
  /** The unsent part of the reply's body. */
  #unsent: Uint8Array = NO_BODY;
  #long = false;
  /**
   * Bytes that the waiting reply counts as buffered: all of it, since no memory is freed before the last byte is sent.
   */
  #replyCost = 0;

  constructor(context: HttpContext, stream: RequestStream, head: RequestHead, last: boolean) {
    super(context);
    this.#stream = stream;
    this.#head = head;
    this.#fields = Http2Headers.of(head);
    this.#requestComplete = last;
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

  /** A reply would end the stream, and errors in the rest of the request could not be reported. */
  protected override get mustReadRest(): boolean {
    return !this.#requestComplete;
  }

  protected override get answered(): boolean {
    return super.answered || this.#stream.localClosed;
  }

  // --- Called by the stream

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    this.#requestComplete = last;
    if (!this.receivingBody) return;
    this.addBodyPart(chunk, start, end, last || end - start >= chunk.length * MIN_SHARE_TO_KEEP);
    if (last) this.completeBody();
    else if (this.receivingBody) {
      if (this.#reserve(this.bodyMemory)) this.#stream.extendReceiveWindow(end - start);
      else this.fail(tooManyBuffered());
    }
  }

  aborted(): void {
    this.finished(false);
  }

  drained(): void {
    if (this.#send()) this.finished(true);
  }

  timedOut(): boolean {
    if (!this.receivingBody) return false;
    this.fail(new Fault("DEADLINE_EXCEEDED", "the request did not arrive in time", { http: 408 }));
    return true;
  }

  // --- Called by the base class

  protected override get headRefusal(): Refusal | undefined {
    const { flaw } = this.#head;
    if (flaw === undefined) return undefined;
    return flaw === "too_large" ? REFUSALS.headTooLarge : REFUSALS.malformedHead;
  }

  protected receiveBody(): void {
    if (this.#requestComplete) this.completeBody();
    else if (this.#fields.expects100) this.#stream.headers([":status", "100"], false);
  }

  protected sendReply(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
  ): boolean {
    const stream = this.#stream;
    const head = [":status", String(status)];
    for (let at = 0; at < fields.length; at += 2) addField(head, fields[at], fields[at + 1]);
    this.#reserve(0);
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const bare = bytes.length === 0 || this.httpMethod === "HEAD";
    stream.headers(head, bare);
    if (bare) return true;
    this.#unsent = bytes;
    this.#long = bytes.length > PART_SIZE;
    this.#replyCost = Math.min(bytes.length, MAX_BUFFERED_PER_REPLY);
    return this.#send();
  }

  protected releaseUnlessTaken(held: Held): void {
    this.#stream.releaseIfUndelivered(held);
  }

  protected abortReply(): void {
    const { localClosed } = this.#stream;
    if (!localClosed) this.#stream.cancel();
    this.finished(localClosed);
  }

  protected override handlerPending(reply: Promise<unknown>): void {
    const stream = this.#stream;
    stream.handlerStarted();
    // The body belongs to the handler until it is done, even if its reply comes too late.
    const fits = this.#reserve(this.bodyMemory);
    const kept = this.#reserved;
    this.#reserved = 0;
    if (!fits) this.fail(tooManyBuffered());
    const handlerDone = () => {
      stream.release(kept);
      stream.handlerFinished();
    };
    reply.then(handlerDone, handlerDone);
  }

  /**
   * Sends until the peer accepts no more; returns true if nothing is left. The last part of a long reply is sent on its
   * own: the stream reports room only before it has ended.
   */
  #send(): boolean {
    const stream = this.#stream;
    const short = this.#long ? 0 : PART_SIZE;
    let left = this.#unsent;
    while (!stream.localClosed) {
      const last = left.length <= short;
      const more = stream.write(last ? left : left.subarray(0, PART_SIZE), last);
      if (last) return true;
      left = left.subarray(PART_SIZE);
      if (more) continue;
      this.#unsent = left;
      if (!this.#reserve(this.#replyCost)) this.abortReply();
      return stream.localClosed;
    }
    return true;
  }

  /** Adjusts the reservation to the memory that is occupied. */
  #reserve(bytes: number): boolean {
    const more = bytes - this.#reserved;
    if (more > 0 && !this.#stream.reserve(more)) return false;
    if (more < 0) this.#stream.release(-more);
    this.#reserved = bytes;
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

function tooManyBuffered(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many request bytes are buffered", { http: 503 });
}
