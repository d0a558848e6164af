// One gRPC call as handlers see it, over the call object of the library. Nothing is made before it is asked for.

import { Metadata, type ServerUnaryCall } from "@grpc/grpc-js";
import type { Clock } from "#base/clock.ts";
import { isBinary, sendable } from "../grpc/metadata.ts";
import type { Call } from "../handler.ts";
import { plainAddress } from "../listen/address.ts";

/** The part that all four kinds of the library's calls share. */
export interface Surface
  extends Pick<
    ServerUnaryCall<unknown, unknown>,
    "cancelled" | "metadata" | "getPeer" | "getDeadline" | "sendMetadata"
  > {
  once(event: "cancelled", listener: () => void): unknown;
}

export class GrpcCall implements Call {
  readonly method: string;
  readonly #surface: Surface;
  readonly #clock: Clock;
  #replies: Metadata | undefined;
  #trailers: Metadata | undefined;
  #sent = false;
  #ended = false;
  #controller: AbortController | undefined;

  constructor(method: string, surface: Surface, clock: Clock) {
    this.method = method;
    this.#surface = surface;
    this.#clock = clock;
  }

  /** The library keeps it as wall time; what is left is the same on any clock. */
  get deadline(): number {
    const deadline = Number(this.#surface.getDeadline());
    return deadline === Number.POSITIVE_INFINITY
      ? deadline
      : this.#clock.now() + (deadline - Date.now());
  }

  get peer(): string {
    const peer = this.#surface.getPeer();
    const port = peer.lastIndexOf(":");
    // "unknown" stands for a Unix socket.
    return port === -1 ? "" : plainAddress(peer.slice(0, port));
  }

  header(name: string): string | undefined {
    const [value] = this.#surface.metadata.get(name);
    if (typeof value !== "string") return value?.toString("base64");
    // Node hands repeated headers over as one, joined like this; the first is what was asked for.
    const joint = value.indexOf(", ");
    return joint < 0 ? value : value.slice(0, joint);
  }

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      if (this.#surface.cancelled) controller.abort();
      // The library says "cancelled" after an ordinary end, too.
      else this.#surface.once("cancelled", () => this.#ended || controller.abort());
    }
    return this.#controller.signal;
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
    return this.#surface.cancelled;
  }

  /** Sends the reply headers if there are any; later ones are lost. */
  sendReplies(): void {
    if (this.#replies === undefined || this.#sent) return;
    this.#sent = true;
    this.#surface.sendMetadata(this.#replies);
  }

  /** What a refusal carries: trailers and, in its only header block, the reply headers. */
  lastFields(): Metadata | undefined {
    if (this.#sent || this.#replies === undefined) return this.#trailers;
    if (this.#trailers !== undefined) this.#replies.merge(this.#trailers);
    return this.#replies;
  }

  /** From here on nobody aborts this call any more. */
  end(): void {
    this.#ended = true;
  }
}

function setField(metadata: Metadata, name: string, value: string): void {
  const sent = sendable(name, value);
  metadata.set(name, isBinary(name) ? Buffer.from(sent, "base64") : sent);
}
