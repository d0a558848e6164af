// One gRPC call in progress over a stream of our own: what handlers see of it, and the one way in which it ends.
// Made for every call, so nothing is made before it is needed.

import type { Clock } from "#base/clock.ts";
import { type Code, Fault } from "#base/fault.ts";
import type { Stream } from "../h2/exchange.ts";
import type { FixedBlock } from "../h2/hpack/encoder.ts";
import { MAX_HELD } from "../h2/limits.ts";
import type { Call } from "../handler.ts";
import type { PortLog, ServerMeter } from "../settings.ts";
import type { Inflater, Owner } from "./inflater.ts";
import { PREFIX } from "./message-reader.ts";
import { firstValue, sendable } from "./metadata.ts";
import { failureOf, givenUp, type MethodRow } from "./methods.ts";
import type { GrpcRequest } from "./request.ts";
import { LATE, LONG_REPLY, type Refusal, SLOW, statusFields } from "./status.ts";

/** What all calls share. */
export interface Door {
  readonly clock: Clock;
  readonly log: PortLog;
  readonly meter:
    | Pick<ServerMeter, "grpcHandled" | "grpcReceived" | "grpcSent" | "grpcStarted">
    | undefined;
  /** Head of a reply that has messages. */
  readonly head: FixedBlock;
  /** Trailers of a call that ended well. */
  readonly trailers: FixedBlock;
  /** For the prefix of the message that is being sent. */
  readonly lead: Uint8Array;
  readonly inflater: Inflater;
}

export abstract class RunningCall implements Call, Owner {
  protected readonly door: Door;
  protected readonly stream: Stream;
  protected readonly request: GrpcRequest;
  protected readonly row: MethodRow;
  readonly #started: number;
  #ended = false;
  /** Ended before its handler did. */
  #cut: Refusal | undefined;
  /** The same as its handler was told it. */
  #told: Fault | undefined;
  #headSent = false;
  #replies: string[] | undefined;
  #trailers: string[] | undefined;
  #controller: AbortController | undefined;
  #disarm: (() => void) | undefined;

  constructor(door: Door, stream: Stream, request: GrpcRequest, row: MethodRow) {
    this.door = door;
    this.stream = stream;
    this.request = request;
    this.row = row;
    this.#started = door.clock.now();
    door.meter?.grpcStarted(row.metered);
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

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cut !== undefined) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  reply(name: string, value: string): void {
    this.#replies = withField(this.#replies, name, sendable(name, value));
  }

  trailer(name: string, value: string): void {
    this.#trailers = withField(this.#trailers, name, sendable(name, value));
  }

  /** Its status is known: nothing more is sent, counted or expected. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Why it ended before its handler did. */
  protected get cut(): Refusal | undefined {
    return this.#cut;
  }

  /** Why it ended, for a handler that goes on: what comes back from there is no failure of ours. */
  protected told(reason: Refusal): Fault {
    this.#told ??= new Fault(reason.code, reason.message);
    return this.#told;
  }

  get connection(): object {
    return this.stream.socket;
  }

  inflated(price: number, failed: boolean): void {
    this.stream.charge(price, "inflate", failed);
  }

  /** The request, or a message of it, took longer than it may. */
  slow(): boolean {
    if (this.#ended) return false;
    this.refuse(SLOW);
    return true;
  }

  /** The caller went away. */
  gone(): void {
    if (this.#ended) return;
    const code = givenUp(this.deadline, this.door.clock.now());
    this.#end(code);
    this.#abandon(code === "CANCELLED" ? { code, message: "the caller went away" } : LATE);
  }

  /** Ends the call with a status although its handler may still be at work. */
  protected refuse(refusal: Refusal): void {
    if (this.#ended) return;
    this.#end(refusal.code);
    this.#sendStatus(refusal);
    this.#abandon(refusal);
  }

  /** Ends the call with what its handler threw. */
  protected fail(thrown: unknown): void {
    if (this.#ended) {
      // Handlers end this way when they are told to stop; anything else is a failure that nobody would see.
      const told = thrown === this.#told || thrown === this.#controller?.signal.reason;
      if (!told) this.#judge(thrown);
      return;
    }
    const fault = this.#judge(thrown);
    this.#end(fault.code);
    this.#sendStatus(fault);
  }

  /** Ends the call well, with its only message. */
  protected answer(message: Uint8Array): void {
    if (this.#ended) return;
    if (message.length > MAX_HELD) {
      this.refuse(LONG_REPLY);
      return;
    }
    const { door, stream } = this;
    door.meter?.grpcSent(this.row.metered);
    this.#end("OK");
    const { lead, trailers } = door;
    writeLength(lead, message.length);
    if (this.#trailers === undefined) {
      stream.answer(door.head, this.#replies, lead, message, trailers);
      return;
    }
    this.#sendHead();
    stream.write(lead, false);
    stream.write(message, false);
    stream.headers([...trailers.fields, ...this.#trailers], true);
  }

  /** Sends one message of several; false: there is no room for more. Throws where it is too long. */
  protected send(message: Uint8Array): boolean {
    if (message.length > MAX_HELD) throw new Fault(LONG_REPLY.code, LONG_REPLY.message);
    if (!this.#headSent) this.#sendHead();
    this.door.meter?.grpcSent(this.row.metered);
    const framed = Buffer.allocUnsafe(PREFIX + message.length);
    framed[0] = 0;
    writeLength(framed, message.length);
    framed.set(message, PREFIX);
    return this.stream.write(framed, false);
  }

  /** Ends the call well after its messages. */
  protected complete(): void {
    if (this.#ended) return;
    this.#end("OK");
    this.#sendStatus({ code: "OK", message: "" });
  }

  /** From here on the deadline ends the call. Until then it is only looked at. */
  protected arm(): void {
    if (this.#ended || this.#disarm !== undefined) return;
    if (this.request.timeoutMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.door;
    const left = Math.max(0, this.deadline - clock.now());
    this.#disarm = clock.alarm(left, () => this.refuse(LATE));
  }

  protected overdue(): boolean {
    return (
      this.request.timeoutMs !== Number.POSITIVE_INFINITY && this.deadline <= this.door.clock.now()
    );
  }

  /** Lets go of what waits for more of the request or for room in the reply. */
  protected abstract forget(): void;

  #end(code: Code): void {
    this.#ended = true;
    this.#disarm?.();
    const { meter, clock } = this.door;
    meter?.grpcHandled(this.row.metered, code, clock.now() - this.#started);
  }

  #abandon(reason: Refusal): void {
    this.#cut = reason;
    this.#controller?.abort();
    this.forget();
  }

  #judge(thrown: unknown): Fault {
    return failureOf(thrown, this.row.metered, this.door.log);
  }

  #sendHead(): void {
    this.#headSent = true;
    const { fields } = this.door.head;
    this.stream.headers(
      this.#replies === undefined ? fields : [...fields, ...this.#replies],
      false,
    );
  }

  /** Trailers, or the only block of the reply when nothing has been sent. */
  #sendStatus(status: Refusal): void {
    const fields = this.#headSent
      ? []
      : [...this.door.head.fields, ...(this.#replies ?? []), ...(status.fields ?? [])];
    fields.push(...statusFields(status), ...(this.#trailers ?? []));
    this.stream.headers(fields, true);
  }
}

/** Fields with the value of one of them set; names are there once. */
function withField(had: string[] | undefined, name: string, value: string): string[] {
  if (had === undefined) return [name, value];
  for (let at = 0; at < had.length; at += 2) {
    if (had[at] !== name) continue;
    had[at + 1] = value;
    return had;
  }
  had.push(name, value);
  return had;
}

/** Big-endian, after the compressed flag. */
function writeLength(prefix: Uint8Array, length: number): void {
  prefix[1] = length >>> 24;
  prefix[2] = length >>> 16;
  prefix[3] = length >>> 8;
  prefix[4] = length;
}
