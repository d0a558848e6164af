// One gRPC call over an HTTP/2 stream: the handler's view of it, and the single way in which it ends. Its parts are
// created lazily, since there is one for every call.

import type { Clock } from "#base/clock.ts";
import { type Code, Fault } from "#base/fault.ts";
import type { Call, Held } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { ServerMeter } from "#base/server-meter.ts";
import type { FixedBlock, RequestStream } from "#h2/exchange.ts";
import { MAX_BUFFERED_PER_CONNECTION } from "#h2/limits.ts";
import { CancellableCall } from "../cancellable-call.ts";
import type { Inflater, MessageOwner } from "./messages/inflater.ts";
import { PREFIX_LENGTH } from "./messages/message-reader.ts";
import { firstValue, sendable } from "./metadata.ts";
import { abandonedCode, failureOf, type MethodRow } from "./methods.ts";
import type { GrpcRequest } from "./request.ts";
import {
  type CallStatus,
  DEADLINE_PASSED,
  REPLY_TOO_LONG,
  REQUEST_TIMED_OUT,
  statusFields,
} from "./status.ts";

/** The dependencies that all calls share. */
export interface CallContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter:
    | Pick<ServerMeter, "grpcHandled" | "grpcReceived" | "grpcSent" | "grpcStarted">
    | undefined;
  /** Header section of a reply that has messages. */
  readonly replyHead: FixedBlock;
  /** Trailers of a successful call. */
  readonly okTrailers: FixedBlock;
  /** Reused for the prefix of each message. */
  readonly prefix: Uint8Array;
  readonly inflater: Inflater;
  /** Longest message that is received, in bytes. */
  readonly maxMessage: number;
}

export abstract class RunningCall extends CancellableCall implements Call, MessageOwner {
  protected readonly context: CallContext;
  protected readonly stream: RequestStream;
  protected readonly request: GrpcRequest;
  protected readonly row: MethodRow;
  readonly #started: number;
  #ended = false;
  /** Set if the call ended before its handler. */
  #cancelStatus: CallStatus | undefined;
  /** The fault that the handler got in that case. */
  #cancelFault: Fault | undefined;
  #replyHeadSent = false;
  #replyFields: string[] | undefined;
  #trailers: string[] | undefined;
  /** Released unless the reply reaches the caller. */
  #held: Held | undefined;
  #cancelAlarm: (() => void) | undefined;

  constructor(context: CallContext, stream: RequestStream, request: GrpcRequest, row: MethodRow) {
    super();
    this.context = context;
    this.stream = stream;
    this.request = request;
    this.row = row;
    this.#started = context.clock.now();
    context.meter?.grpcStarted(row.metered);
  }

  get method(): string {
    return this.row.metered.path;
  }

  get deadline(): number {
    return this.#started + this.request.timeoutMs;
  }

  get peer(): string {
    return this.stream.peer;
  }

  header(name: string): string | undefined {
    return firstValue(this.request.fields, name);
  }

  protected get cancelled(): boolean {
    return this.#cancelStatus !== undefined;
  }

  releaseIfUndelivered(held: Held): void {
    if (this.#ended) held.release();
    else this.#held = held;
  }

  reply(name: string, value: string): void {
    this.#replyFields = setField(this.#replyFields, name, sendable(name, value));
  }

  trailer(name: string, value: string): void {
    this.#trailers = setField(this.#trailers, name, sendable(name, value));
  }

  /** The status is known; nothing more is sent or expected. */
  get ended(): boolean {
    return this.#ended;
  }

  protected get cancelStatus(): CallStatus | undefined {
    return this.#cancelStatus;
  }

  /** The fault for a handler that continues after the call ended. If the handler throws it back, that is no error. */
  protected cancelFault(reason: CallStatus): Fault {
    this.#cancelFault ??= new Fault(reason.code, reason.message);
    return this.#cancelFault;
  }

  get connection(): object {
    return this.stream.socket;
  }

  inflated(price: number, failed: boolean): void {
    this.stream.charge(price, "inflate", failed);
  }

  /** The request, or one of its messages, exceeded `read_timeout`. */
  timedOut(): boolean {
    if (this.#ended) return false;
    this.refuse(REQUEST_TIMED_OUT);
    return true;
  }

  /** The caller cancelled the call or is gone. */
  aborted(): void {
    if (this.#ended) return;
    const code = abandonedCode(this.deadline, this.context.clock.now());
    this.#end(code);
    this.#cancelFor(
      code === "CANCELLED" ? { code, message: "the caller went away" } : DEADLINE_PASSED,
    );
  }

  /** Ends the call with a status although its handler may still be running. */
  protected refuse(refusal: CallStatus): void {
    if (this.#ended) return;
    this.#end(refusal.code);
    this.#sendStatus(refusal);
    this.#cancelFor(refusal);
  }

  /** Ends the call with an exception of its handler. */
  protected fail(thrown: unknown): void {
    if (this.#ended) {
      // Handlers end this way when they are cancelled; another error would go unnoticed.
      if (thrown !== this.#cancelFault && !this.isAbortReason(thrown)) this.#faultOf(thrown);
      return;
    }
    const fault = this.#faultOf(thrown);
    this.#end(fault.code);
    this.#sendStatus(fault);
  }

  /** Ends a successful call with its only message. */
  protected succeed(message: Uint8Array): void {
    if (this.#ended) return;
    if (message.length > MAX_BUFFERED_PER_CONNECTION) {
      this.refuse(REPLY_TOO_LONG);
      return;
    }
    if (this.#held !== undefined && !this.#entrust(this.#held)) return;
    const { context, stream } = this;
    context.meter?.grpcSent(this.row.metered);
    this.#end("OK");
    const { prefix, okTrailers: trailers } = context;
    writeLength(prefix, message.length);
    if (this.#trailers === undefined) {
      stream.respond(context.replyHead, this.#replyFields, prefix, message, trailers);
      return;
    }
    this.#sendReplyHead();
    stream.write(prefix, false);
    stream.write(message, false);
    stream.headers([...trailers.fields, ...this.#trailers], true);
  }

  /**
   * The stream releases the slot of an undelivered reply. A caller whose deadline has passed does not take the reply.
   */
  #entrust(held: Held): boolean {
    if (this.deadlinePassed()) {
      this.refuse(DEADLINE_PASSED);
      return false;
    }
    this.#held = undefined;
    this.stream.releaseIfUndelivered(held);
    return true;
  }

  /** Sends one of several messages. Returns false if there is no room for more; throws if it is too long. */
  protected send(message: Uint8Array): boolean {
    if (message.length > MAX_BUFFERED_PER_CONNECTION)
      throw new Fault(REPLY_TOO_LONG.code, REPLY_TOO_LONG.message);
    if (!this.#replyHeadSent) this.#sendReplyHead();
    this.context.meter?.grpcSent(this.row.metered);
    const framed = Buffer.allocUnsafe(PREFIX_LENGTH + message.length);
    framed[0] = 0;
    writeLength(framed, message.length);
    framed.set(message, PREFIX_LENGTH);
    return this.stream.write(framed, false);
  }

  /** Ends a successful call after its messages. */
  protected complete(): void {
    if (this.#ended) return;
    this.#end("OK");
    this.#sendStatus({ code: "OK", message: "" });
  }

  /** Ends the call at its deadline. Without the alarm, the deadline is only compared with the clock. */
  protected armDeadline(): void {
    if (this.#ended || this.#cancelAlarm !== undefined) return;
    if (this.request.timeoutMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.context;
    const left = Math.max(0, this.deadline - clock.now());
    this.#cancelAlarm = clock.alarm(left, () => this.refuse(DEADLINE_PASSED));
  }

  protected deadlinePassed(): boolean {
    return (
      this.request.timeoutMs !== Number.POSITIVE_INFINITY &&
      this.deadline <= this.context.clock.now()
    );
  }

  /** Ends all waits for more of the request or for room in the reply. */
  protected abstract stopWaiting(): void;

  #end(code: Code): void {
    this.#ended = true;
    this.#held?.release();
    this.#cancelAlarm?.();
    const { meter, clock } = this.context;
    meter?.grpcHandled(this.row.metered, code, clock.now() - this.#started);
  }

  #cancelFor(reason: CallStatus): void {
    this.#cancelStatus = reason;
    this.cancel();
    this.stopWaiting();
  }

  #faultOf(thrown: unknown): Fault {
    return failureOf(thrown, this.row.metered, this.context.log);
  }

  #sendReplyHead(): void {
    this.#replyHeadSent = true;
    const { fields } = this.context.replyHead;
    this.stream.headers(
      this.#replyFields === undefined ? fields : [...fields, ...this.#replyFields],
      false,
    );
  }

  /** Sends trailers, or the only field block of the reply if nothing has been sent. */
  #sendStatus(status: CallStatus): void {
    const fields = this.#replyHeadSent
      ? []
      : [...this.context.replyHead.fields, ...(this.#replyFields ?? []), ...(status.fields ?? [])];
    fields.push(...statusFields(status), ...(this.#trailers ?? []));
    this.stream.headers(fields, true);
  }
}

/** Sets one field; names are unique. */
function setField(had: string[] | undefined, name: string, value: string): string[] {
  if (had === undefined) return [name, value];
  for (let at = 0; at < had.length; at += 2) {
    if (had[at] !== name) continue;
    had[at + 1] = value;
    return had;
  }
  had.push(name, value);
  return had;
}

/** Writes the length after the compressed flag, big-endian. */
function writeLength(prefix: Uint8Array, length: number): void {
  prefix[1] = length >>> 24;
  prefix[2] = length >>> 16;
  prefix[3] = length >>> 8;
  prefix[4] = length;
}
