// One gRPC call as handlers see it, on top of the library's call object. Everything in it is created lazily.

import { Metadata, type ServerUnaryCall } from "@grpc/grpc-js";
import type { Clock } from "#base/clock.ts";
import type { Call, Held } from "#base/handler.ts";
import { splitHostPort } from "#base/net/host-port.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { isBinary, sendable } from "../grpc/metadata.ts";

/** The common part of the library's four kinds of calls. */
export interface LibraryCall
  extends Pick<
    ServerUnaryCall<unknown, unknown>,
    "cancelled" | "metadata" | "getPeer" | "getDeadline" | "sendMetadata"
  > {
  once(event: "cancelled", listener: () => void): unknown;
}

export class GrpcCall implements Call {
  readonly method: string;
  readonly #libraryCall: LibraryCall;
  readonly #clock: Clock;
  #replies: Metadata | undefined;
  #trailers: Metadata | undefined;
  #sent = false;
  #ended = false;
  #controller: AbortController | undefined;
  #held: Held | undefined;

  constructor(method: string, libraryCall: LibraryCall, clock: Clock) {
    this.method = method;
    this.#libraryCall = libraryCall;
    this.#clock = clock;
  }

  /** The library keeps the deadline as wall time. */
  get deadline(): number {
    const deadline = Number(this.#libraryCall.getDeadline());
    return deadline === Number.POSITIVE_INFINITY
      ? deadline
      : this.#clock.now() + (deadline - Date.now());
  }

  get peer(): string {
    const { host, port } = splitHostPort(this.#libraryCall.getPeer());
    // The library reports "unknown" for a Unix socket.
    return port === "" ? "" : canonicalAddress(host);
  }

  header(name: string): string | undefined {
    const [value] = this.#libraryCall.metadata.get(name);
    if (typeof value !== "string") return value?.toString("base64");
    // Node joins repeated headers like this; the first value is wanted.
    const joint = value.indexOf(", ");
    return joint < 0 ? value : value.slice(0, joint);
  }

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      if (this.#libraryCall.cancelled) controller.abort();
      // The library also emits "cancelled" after an ordinary end.
      else this.#libraryCall.once("cancelled", () => this.#ended || controller.abort());
    }
    return this.#controller.signal;
  }

  whenCallerLeaves(left: () => void): void {
    const signal = this.signal();
    if (signal.aborted) left();
    else signal.addEventListener("abort", left, { once: true });
  }

  /** The library does not report whether a sent reply was also taken. */
  releaseIfUndelivered(held: Held): void {
    this.#held = held;
  }

  reply(name: string, value: string): void {
    this.#replies ??= new Metadata();
    setField(this.#replies, name, value);
  }

  trailer(name: string, value: string): void {
    this.#trailers ??= new Metadata();
    setField(this.#trailers, name, value);
  }

  get trailers(): Metadata | undefined {
    return this.#trailers;
  }

  get cancelled(): boolean {
    return this.#libraryCall.cancelled;
  }

  /** Sends the reply headers if there are any; headers set later are lost. */
  sendReplies(): void {
    if (this.#replies === undefined || this.#sent) return;
    this.#sent = true;
    this.#libraryCall.sendMetadata(this.#replies);
  }

  /** Metadata of a refusal: trailers and, in the same field block, the reply headers. */
  finalFields(): Metadata | undefined {
    if (this.#sent || this.#replies === undefined) return this.#trailers;
    if (this.#trailers !== undefined) this.#replies.merge(this.#trailers);
    return this.#replies;
  }

  /** From here on nothing aborts this call. `delivered`: a reply is sent to a caller that is still there. */
  end(delivered: boolean): void {
    this.#ended = true;
    if (!delivered) this.#held?.release();
    this.#held = undefined;
  }
}

function setField(metadata: Metadata, name: string, value: string): void {
  const sent = sendable(name, value);
  metadata.set(name, isBinary(name) ? Buffer.from(sent, "base64") : sent);
}
