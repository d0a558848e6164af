// One HTTP request from its header section to the end of its reply, in any version of HTTP: routing, validation of
// headers, body, handler, reply and timeouts. Subclasses for each version read the request and send the reply.

import { Fault } from "#base/fault.ts";
import type { Call, Held, HttpReply, HttpRequest, Route } from "#base/handler.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { MAX_BUFFERED_TOTAL } from "#h2/limits.ts";
import { CancellableCall } from "../cancellable-call.ts";
import { timeoutOf } from "../grpc-timeout.ts";
import {
  acceptsBody,
  BodyBuffer,
  NO_BODY,
  tooLarge,
  validateBodyHeaders,
  validatesBodyHeaders,
} from "./body.ts";
import type { HttpContext } from "./context.ts";
import { faultReply, replyFields } from "./reply.ts";
import { type ReceivedHead, ReceivedRequest, readTarget, type Target } from "./request.ts";
import type { RouteMatch } from "./router.ts";

/**
 * Bytes of unread replies in the whole process. Node's server stops reading only once a reply waits, and first answers
 * hundreds of requests that it has read. Small replies are not refused.
 */
const MAX_UNSENT = MAX_BUFFERED_TOTAL;
const SMALL_REPLY = 16 * 1024;

export abstract class HttpExchange extends CancellableCall implements Call, ReceivedHead {
  protected readonly context: HttpContext;
  /** When the request arrived, on `clock.now()`. */
  protected readonly started: number;
  #target: Target = NO_TARGET;
  #match: RouteMatch | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  #receivingBody = false;
  #body: BodyBuffer | undefined;
  #replyFields: string[] | undefined;
  /** Released unless the reply reaches the caller. */
  #held: Held | undefined;
  #cancelDeadline: (() => void) | undefined;
  #cancelWriteTimeout: (() => void) | undefined;
  /** Status of the reply; 0 = none yet. */
  #status = 0;
  #finished = false;
  /** Bytes of the reply while its peer has not read it. */
  #unsentBytes = 0;

  constructor(context: HttpContext) {
    super();
    this.context = context;
    this.started = context.clock.now();
  }

  // --- Provided by the subclass

  abstract readonly httpMethod: string;
  abstract readonly headers: HttpRequest["headers"];
  abstract readonly peer: string;
  /** Path and query. */
  protected abstract readonly requestTarget: string;

  // --- Overridden where it differs

  /** The rest of the request must be read before the reply, although it is not needed. */
  protected get mustReadRest(): boolean {
    return false;
  }

  /** The reason to refuse the header section on every route: malformed, too long, or too many fields. */
  protected get headRefusal(): Refusal | undefined {
    return undefined;
  }

  /** Throws if the request must be refused because of its header section, whatever its path. */
  protected validateHead(): void {}

  /** Throws if the request names no valid host. Not called where callers forward the headers of others. */
  protected validateHost(): void {}

  /** Called before `sendReply` if the request failed before it was complete: the rest of it is not wanted. */
  protected discardRest(): void {}

  /** The handler replies later: the subclass must call `finished` if the caller goes away. */
  protected handlerPending(_reply: Promise<unknown>): void {}

  protected get timeoutHeader(): string | string[] | undefined {
    return this.headers["grpc-timeout"];
  }

  /** Bytes of the body that the request announces. */
  protected get announcedLength(): number {
    return Number(this.headers["content-length"] ?? 0);
  }

  // --- Done by the subclass

  /** Starts to read the body: calls `addBodyPart` for each part and `completeBody` at the end. */
  protected abstract receiveBody(): void;
  /**
   * Sends a whole reply; `fields` alternates names and values, `length` is the size of the body in bytes. Returns true
   * if nothing is left to send or nothing can be sent; otherwise calls `finished` later. Throws, and sends nothing, if
   * a field is invalid.
   */
  protected abstract sendReply(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
    length: number,
  ): boolean;
  /** Releases `held` unless the caller takes the reply that is sent next. */
  protected abstract releaseUnlessTaken(held: Held): void;
  /** Aborts a reply that has begun. */
  protected abstract abortReply(): void;

  // --- Called by the subclass

  /** The header section has arrived. */
  begin(): void {
    try {
      const { context } = this;
      this.validateHead();
      this.#target = readTarget(this.requestTarget);
      this.#match = context.router.find(this.httpMethod, this.#target.path);
      const { route } = this.#match;
      const { headRefusal } = this;
      if (headRefusal !== undefined) {
        if (route.unread === undefined) throw this.headFault(headRefusal);
        this.#receivingBody = true;
        this.#refuseUnread(route, headRefusal);
        return;
      }
      if (route.forwarded !== true) this.validateHost();
      const timeout = this.timeoutHeader;
      if (timeout !== undefined)
        this.#deadline = this.started + timeoutOf(timeout, route.forwarded === true);
      route.admit?.(this);
      if (acceptsBody(route)) {
        if (validatesBodyHeaders(route)) validateBodyHeaders(this.headers);
        this.#receivingBody = true;
        if (this.announcedLength > this.#maxBody(route))
          this.#refuseUnread(route, REFUSALS.tooLarge);
        else this.receiveBody();
      } else if (this.mustReadRest) this.#receivingBody = true;
      else this.#run(this.#match, NO_BODY);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** The error for a route that does not reply to such a header section. */
  protected headFault({ status, why }: Refusal): Fault {
    if (status !== 431) return new Fault("INVALID_ARGUMENT", why);
    const { max_headers } = this.context.settings;
    const message = `more than ${max_headers} headers, or headers that are too long`;
    return new Fault("RESOURCE_EXHAUSTED", message, { http: 431 });
  }

  protected get receivingBody(): boolean {
    return this.#receivingBody;
  }

  /** Bytes. */
  protected get bodyMemory(): number {
    return this.#body === undefined ? 0 : this.#body.capacity;
  }

  /** `whole`: the chunk holds little else, so that it may be kept. */
  protected addBodyPart(chunk: Buffer, start: number, end: number, whole: boolean): void {
    if (!this.#receivingBody || this.#match === undefined || !acceptsBody(this.#match.route))
      return;
    this.#body ??= new BodyBuffer();
    const { route } = this.#match;
    if (this.#body.length + end - start > this.#maxBody(route))
      this.#refuseUnread(route, REFUSALS.tooLarge);
    else this.#body.add(chunk, start, end, whole);
  }

  /**
   * The framing of the body is broken, or the body is late. Returns whether the route replies to that, which closes the
   * connection.
   */
  refuseBrokenBody(refusal: Refusal = REFUSALS.framing): boolean {
    const route = this.#match?.route;
    if (route?.unread === undefined || !this.#receivingBody || this.answered) return false;
    this.#refuseUnread(route, refusal);
    return true;
  }

  #maxBody(route: Route): number {
    return route.maxBody ?? this.context.maxBody;
  }

  #refuseUnread(route: Route, refusal: Refusal): void {
    try {
      if (route.unread === undefined) throw tooLarge(this.#maxBody(route));
      const reply = route.unread(this, refusal);
      this.discardRest();
      this.#send(reply, this.#replyFields);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** The body is complete; `whole` is all of it if there were no parts. */
  protected completeBody(whole: Uint8Array = NO_BODY): void {
    if (!this.#receivingBody || this.#match === undefined) return;
    this.#receivingBody = false;
    this.#run(this.#match, this.#body === undefined ? whole : this.#body.bytes());
  }

  /** Answers with the fault, unless a reply was sent already. */
  protected fail(thrown: unknown): void {
    const fault = Fault.from(thrown);
    if (fault.code === "INTERNAL") {
      const route = this.#match?.route.path ?? "";
      this.context.log.error({ route, error: fault.cause ?? fault }, "request failed");
    }
    this.#release();
    if (this.answered) return;
    this.discardRest();
    // A refusal does not carry the headers that the call set for its reply.
    this.#send(faultReply(fault), undefined);
  }

  /** The exchange is over: the whole reply was sent (`whole`), or nothing more can be sent. */
  protected finished(whole: boolean): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#release();
    this.context.unsentBytes -= this.#unsentBytes;
    this.#receivingBody = false;
    this.#body = undefined;
    this.#cancelDeadline?.();
    this.#cancelWriteTimeout?.();
    if (!whole) this.cancel();
    const { meter, clock } = this.context;
    if (meter === undefined) return;
    meter.httpRequest(this.httpMethod, this.#status, this.method, clock.now() - this.started);
  }

  /** A reply was sent, or none can be. */
  protected get answered(): boolean {
    return this.#status !== 0 || this.#finished;
  }

  // --- Used by handlers

  get method(): string {
    return this.#match === undefined ? "" : this.#match.route.path;
  }

  get deadline(): number {
    return this.#deadline;
  }

  header(name: string): string | undefined {
    // The host of a target in absolute form replaces the header (RFC 9112 §3.2.2).
    if (name === "host" && this.#target?.authority !== undefined) return this.#target.authority;
    const value = this.headers[name];
    return typeof value === "object" ? value[0] : value;
  }

  protected get cancelled(): boolean {
    return this.#finished;
  }

  releaseIfUndelivered(held: Held): void {
    if (this.answered) held.release();
    else this.#held = held;
  }

  reply(name: string, value: string): void {
    this.#replyFields ??= [];
    this.#replyFields.push(name, value);
  }

  trailer(name: string, value: string): void {
    this.reply(name, value);
  }

  #run(found: RouteMatch, body: Uint8Array): void {
    const { forwarded } = found.route;
    if (forwarded !== true && this.#hasDeadline && this.#remainingMs() <= 0) {
      this.#deadlinePassed();
      return;
    }
    try {
      const request = new ReceivedRequest(this, this.#target, found, body);
      const { route } = found;
      const reply =
        route.costly === true ? this.#enqueue(route, request) : route.handle(request, this);
      if (reply instanceof Promise) this.#await(found.route, reply);
      else this.#reply(reply);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  #enqueue(route: Route, request: HttpRequest): Promise<HttpReply> {
    return this.context.costlyQueue.run(() => {
      if (this.answered) throw new Fault("CANCELLED", "the caller went away");
      return route.handle(request, this);
    });
  }

  #await(route: Route, reply: Promise<HttpReply>): void {
    this.handlerPending(reply);
    if (!this.answered) this.#armTimeouts(route);
    reply.then((made) => this.#reply(made)).catch((thrown) => this.fail(thrown));
  }

  #armTimeouts(route: Route): void {
    this.#armWriteTimeout(route);
    if (!this.#hasDeadline || route.forwarded === true) return;
    this.#cancelDeadline = this.context.clock.alarm(this.#remainingMs(), () =>
      this.#deadlinePassed(),
    );
  }

  get #hasDeadline(): boolean {
    return this.#deadline !== Number.POSITIVE_INFINITY;
  }

  #remainingMs(): number {
    return this.#deadline - this.context.clock.now();
  }

  #deadlinePassed(): void {
    this.fail(new Fault("DEADLINE_EXCEEDED", "the deadline passed before the reply"));
    this.cancel();
  }

  #reply(reply: HttpReply): void {
    // A caller whose deadline has passed does not take the reply.
    const late = this.#held !== undefined && this.#remainingMs() <= 0;
    if (late && this.#match?.route.forwarded !== true) this.#deadlinePassed();
    else if (!this.answered) this.#send(reply, this.#replyFields);
    else this.#release();
  }

  /** The reply of the handler does not reach the caller. */
  #release(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  #send({ status, headers, body }: HttpReply, more: readonly string[] | undefined): void {
    const length = Buffer.byteLength(body);
    const { context } = this;
    if (length > SMALL_REPLY && context.unsentBytes + length > MAX_UNSENT) {
      this.#release();
      this.#send(faultReply(tooMuchUnsent()), undefined);
      return;
    }
    if (this.#held !== undefined) this.releaseUnlessTaken(this.#held);
    this.#held = undefined;
    const fields = replyFields(headers, more, length);
    this.#status = status;
    let out: boolean;
    try {
      out = this.sendReply(status, fields, body, length);
    } catch (thrown) {
      this.#status = 0;
      throw thrown;
    }
    this.#receivingBody = false;
    this.#body = undefined;
    this.#cancelDeadline?.();
    if (out) {
      this.finished(true);
      return;
    }
    if (!this.#finished) {
      this.#unsentBytes = length;
      context.unsentBytes += length;
    }
    this.#armWriteTimeout(this.#match?.route);
  }

  /** `write_timeout`: a reply that is not sent by then becomes a 503 or, if it has begun, is aborted. */
  #armWriteTimeout(route: Route | undefined): void {
    const { settings, clock } = this.context;
    if (this.#cancelWriteTimeout !== undefined || this.#finished) return;
    if (route?.stream === true || settings.write_timeout <= 0) return;
    this.#cancelWriteTimeout = clock.alarm(settings.write_timeout, () => {
      if (this.#status !== 0) this.abortReply();
      else this.fail(new Fault("UNAVAILABLE", "the reply took longer than this server allows"));
      this.cancel();
    });
  }
}

const NO_TARGET: Target = { authority: undefined, path: "", search: "" };

function tooMuchUnsent(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many replies are waiting to be read", { http: 503 });
}
