// One HTTP request from its head to the end of its reply, whatever version carries it: routed, judged by its
// headers, its body collected, its handler asked, and answered in time. Carriers tell it what comes in and
// say how a reply goes out.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { MAX_HELD_IN_ALL } from "../h2/limits.ts";
import type { Call, HttpReply, HttpRequest, Route } from "../handler.ts";
import type { HttpSettings, PortLog, ServerMeter } from "../settings.ts";
import { Collected, judgeBody, maxBody, NO_BODY, takesBody, tooLarge } from "./body.ts";
import { faultReply, replyFields } from "./reply.ts";
import { type Received, ReceivedRequest, readTarget, type Target } from "./request.ts";
import type { Found, Router } from "./router.ts";
import { readTimeout } from "./timeout.ts";
import type { Turns } from "./turns.ts";

/**
 * Bytes of replies that may wait for their peers, all together: as many as all streams of HTTP/2 may hold. Node's server
 * reads on until a reply waits, and works off what it has read: hundreds of requests. Small replies are not refused.
 */
const MOST_UNSENT = MAX_HELD_IN_ALL;
const SMALL_REPLY = 16 * 1024;

/** What all requests of a port share. */
export interface Surroundings {
  readonly router: Router;
  readonly settings: HttpSettings;
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter: ServerMeter | undefined;
  /** Callers are asked to move on. */
  leaving: boolean;
  /** Nothing new is taken. */
  draining: boolean;
  /** Of costly requests. */
  readonly turns: Turns;
  /** Bytes of replies that peers have not taken yet. */
  unsent: number;
}

export abstract class HttpExchange implements Call, Received {
  protected readonly around: Surroundings;
  readonly #started: number;
  #target: Target = NO_TARGET;
  #found: Found | undefined;
  #deadline = Number.POSITIVE_INFINITY;
  #collecting = false;
  #body: Collected | undefined;
  #replies: string[] | undefined;
  #controller: AbortController | undefined;
  #forgetDeadline: (() => void) | undefined;
  #forgetWriting: (() => void) | undefined;
  /** Of the reply that was handed on; 0 = none. */
  #status = 0;
  #ended = false;
  /** Of the reply, while its peer has not taken it. */
  #unsent = 0;

  constructor(around: Surroundings) {
    this.around = around;
    this.#started = around.clock.now();
  }

  // --- what the carrier knows

  abstract readonly httpMethod: string;
  abstract readonly headers: HttpRequest["headers"];
  abstract readonly peer: string;
  /** Path and query, as received. */
  protected abstract readonly requestTarget: string;
  /** More of the request is to be read before its reply, although nobody wants it. */
  protected abstract readonly unfinished: boolean;

  // --- what the carrier does

  /** Throws when the request is refused by its head alone, whatever it asks for. */
  protected abstract judgeHead(): void;
  /** Lets the body come: `part` for each part and `complete` at its end; `complete` alone where there is none. */
  protected abstract collect(): void;
  /**
   * Sends a whole reply, `fields` being names and values in turn, `length` the bytes of its body. True when nothing of it is left here or none
   * can be sent; else `ended` follows. Throws when a field cannot be sent: then nothing was.
   */
  protected abstract transmit(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
    length: number,
  ): boolean;
  /** The request failed before it was whole: what is still to come is not wanted. Before `transmit`. */
  protected abstract refuseRest(): void;
  /** Ends a reply in the middle. */
  protected abstract cut(): void;
  /** The handler answers later: the carrier is to say `ended` when the caller leaves. */
  protected abstract waits(reply: Promise<unknown>): void;

  // --- what the carrier tells

  /** The head is there. */
  protected begin(): void {
    try {
      const { around } = this;
      this.judgeHead();
      this.#target = readTarget(this.requestTarget);
      this.#found = around.router.find(this.httpMethod, this.#target.path);
      const timeout = this.headers["grpc-timeout"];
      if (timeout !== undefined) this.#deadline = this.#started + readTimeout(timeout);
      const { route } = this.#found;
      if (takesBody(route)) {
        judgeBody(this.headers, route);
        this.#collecting = true;
        this.collect();
      } else if (this.unfinished) this.#collecting = true;
      else this.#run(this.#found, NO_BODY);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  /** The body is being collected: what comes counts. */
  protected get collecting(): boolean {
    return this.#collecting;
  }

  /** Bytes of memory that the body takes up so far. */
  protected get kept(): number {
    return this.#body === undefined ? 0 : this.#body.kept;
  }

  /** `whole`: the memory holds nothing but this part, or so little else that it may be kept. */
  protected part(chunk: Buffer, start: number, end: number, whole: boolean): void {
    if (!this.#collecting || this.#found === undefined || !takesBody(this.#found.route)) return;
    this.#body ??= new Collected();
    const max = maxBody(this.#found.route);
    if (this.#body.length + end - start > max) this.fail(tooLarge(max));
    else this.#body.add(chunk, start, end, whole);
  }

  /** The body is whole. */
  protected complete(): void {
    if (!this.#collecting || this.#found === undefined) return;
    this.#collecting = false;
    this.#run(this.#found, this.#body === undefined ? NO_BODY : this.#body.bytes());
  }

  /** Answers with why there is no better answer, unless there was one. */
  protected fail(thrown: unknown): void {
    const fault = Fault.from(thrown);
    if (fault.code === "INTERNAL") {
      const route = this.#found?.route.path ?? "";
      this.around.log.error("request failed", { route, error: fault.cause ?? fault });
    }
    if (this.answered) return;
    this.refuseRest();
    // What the call would have said with its reply is not said with a refusal.
    this.#send(faultReply(fault), undefined);
  }

  /** The exchange is over: its reply is out whole, or nothing more can be sent. */
  protected ended(whole: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.around.unsent -= this.#unsent;
    this.#collecting = false;
    this.#body = undefined;
    this.#forgetDeadline?.();
    this.#forgetWriting?.();
    if (!whole) this.#controller?.abort();
    const { meter, clock } = this.around;
    if (meter === undefined) return;
    meter.httpRequest(this.httpMethod, this.#status, this.method, clock.now() - this.#started);
  }

  /** A reply was handed on, or none can be. */
  protected get answered(): boolean {
    return this.#status !== 0 || this.#ended;
  }

  // --- what handlers ask

  get method(): string {
    return this.#found === undefined ? "" : this.#found.route.path;
  }

  get deadline(): number {
    return this.#deadline;
  }

  header(name: string): string | undefined {
    const value = this.headers[name];
    return typeof value === "object" ? value[0] : value;
  }

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ended) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  reply(name: string, value: string): void {
    this.#replies ??= [];
    this.#replies.push(name, value);
  }

  trailer(name: string, value: string): void {
    this.reply(name, value);
  }

  // ---

  #run(found: Found, body: Uint8Array): void {
    if (this.#deadline !== Number.POSITIVE_INFINITY && this.#left() <= 0) {
      this.#late();
      return;
    }
    try {
      const request = new ReceivedRequest(this, this.#target, found, body);
      const { route } = found;
      const reply =
        route.costly === true ? this.#inTurn(route, request) : route.handle(request, this);
      if (reply instanceof Promise) this.#wait(found.route, reply);
      else this.#finish(reply);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  #inTurn(route: Route, request: HttpRequest): Promise<HttpReply> {
    return this.around.turns.take(() => {
      if (this.answered) throw new Fault("CANCELLED", "nobody waits for it any more");
      return route.handle(request, this);
    });
  }

  #wait(route: Route, reply: Promise<HttpReply>): void {
    this.waits(reply);
    if (!this.answered) this.#limitTime(route);
    reply.then((made) => this.#finish(made)).catch((thrown) => this.fail(thrown));
  }

  #limitTime(route: Route): void {
    this.#limitWriting(route);
    if (this.#deadline === Number.POSITIVE_INFINITY) return;
    this.#forgetDeadline = this.around.clock.alarm(this.#left(), () => this.#late());
  }

  #left(): number {
    return this.#deadline - this.around.clock.now();
  }

  #late(): void {
    this.fail(new Fault("DEADLINE_EXCEEDED", "the deadline passed before the reply"));
    this.#controller?.abort();
  }

  #finish(reply: HttpReply): void {
    if (!this.answered) this.#send(reply, this.#replies);
  }

  #send({ status, headers, body }: HttpReply, more: readonly string[] | undefined): void {
    const length = Buffer.byteLength(body);
    const { around } = this;
    if (length > SMALL_REPLY && around.unsent + length > MOST_UNSENT) {
      this.#send(faultReply(tooMuchUnsent()), undefined);
      return;
    }
    const fields = replyFields(headers, more, length);
    this.#status = status;
    let out: boolean;
    try {
      out = this.transmit(status, fields, body, length);
    } catch (thrown) {
      this.#status = 0;
      throw thrown;
    }
    this.#collecting = false;
    this.#body = undefined;
    this.#forgetDeadline?.();
    if (out) {
      this.ended(true);
      return;
    }
    if (!this.#ended) {
      this.#unsent = length;
      around.unsent += length;
    }
    this.#limitWriting(this.#found?.route);
  }

  /** `write_timeout`: a reply that is not out by then is answered 503 or, when it has begun, cut. */
  #limitWriting(route: Route | undefined): void {
    const { settings, clock } = this.around;
    if (this.#forgetWriting !== undefined || this.#ended) return;
    if (route?.stream === true || settings.write_timeout <= 0) return;
    this.#forgetWriting = clock.alarm(settings.write_timeout, () => {
      if (this.#status !== 0) this.cut();
      else this.fail(new Fault("UNAVAILABLE", "the reply took longer than this server allows"));
      this.#controller?.abort();
    });
  }
}

const NO_TARGET: Target = { path: "", search: "" };

function tooMuchUnsent(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many replies wait for their readers", { http: 503 });
}

export function tooManyHeaders(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", "too many headers, or too long ones", { http: 431 });
}
