// Calls in which one or both sides may send any number of messages. Handlers read at their own pace and wait for room
// when they send; a caller that sends ahead can fill one window at most.

import { Fault } from "#base/fault.ts";
import type { Exchange, RequestStream } from "#h2/exchange.ts";
import { type CallContext, RunningCall } from "./call.ts";
import { MessageReader } from "./messages/message-reader.ts";
import type { MethodRow } from "./methods.ts";
import type { GrpcRequest } from "./request.ts";
import {
  type CallStatus,
  DEADLINE_PASSED,
  EXTRA_MESSAGE,
  MISSING_MESSAGE,
  TOO_MANY_BUFFERED,
  TRUNCATED_MESSAGE,
} from "./status.ts";

/** Bytes that a queued message counts besides its own: empty messages must not be free. */
const ENTRY_COST = 256;

interface QueuedMessage {
  readonly message: Uint8Array;
  readonly compressed: boolean;
  readonly reserved: number;
}

export class StreamCall extends RunningCall implements Exchange {
  readonly #reader: MessageReader;
  /** Messages that the handler has not read. */
  #queue: QueuedMessage[] = [];
  #count = 0;
  /** Bytes that have arrived since the receive window was extended. */
  #unextended = 0;
  #remoteClosed = false;
  /** The only reply of a client-streaming call. */
  #singleReply: Uint8Array | undefined;
  #messageWaiter: PromiseWithResolvers<void> | undefined;
  #roomWaiter: PromiseWithResolvers<void> | undefined;

  constructor(context: CallContext, stream: RequestStream, request: GrpcRequest, row: MethodRow) {
    super(context, stream, request, row);
    this.#reader = new MessageReader(stream, context.maxMessage);
    this.armDeadline();
    if (row.client) this.#start();
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    if (this.ended) return;
    const reader = this.#reader;
    let at = start;
    while (at < end) {
      at = reader.read(chunk, at, end);
      const refusal = reader.rejection ?? (reader.complete ? this.#enqueue() : undefined);
      if (refusal !== undefined) {
        this.refuse(refusal);
        return;
      }
    }
    this.#unextended += end - start;
    if (last) this.#endRequest();
    else this.#extendReceiveWindow();
    if (last || this.#queue.length > 0) this.#wakeReader();
  }

  drained(): void {
    this.#roomWaiter?.resolve();
    this.#roomWaiter = undefined;
  }

  /**
   * A stream may pause between messages but not within one, whose received part is buffered. While the handler is not
   * waiting, the peer may lack the window to send the rest.
   */
  get incompletePart(): number {
    if (!this.row.client) return 1;
    return this.#reader.started && this.#messageWaiter !== undefined ? this.#count + 1 : 0;
  }

  protected override stopWaiting(): void {
    // A handler that continues to read must not take lost messages for the end.
    if (this.#queue.length > 0) this.#remoteClosed = false;
    this.#queue = [];
    this.#wakeReader();
    this.drained();
  }

  #enqueue(): CallStatus | undefined {
    const reader = this.#reader;
    if (!this.row.client && this.#count > 0) return EXTRA_MESSAGE;
    if (!this.stream.reserve(ENTRY_COST)) return TOO_MANY_BUFFERED;
    this.#count++;
    const { compressed, reserved } = reader;
    this.#queue.push({ message: reader.take(), compressed, reserved: reserved + ENTRY_COST });
    return undefined;
  }

  /** The request has ended, and must not have ended inside a message. */
  #endRequest(): void {
    if (this.#reader.started) {
      this.refuse(TRUNCATED_MESSAGE);
      return;
    }
    this.#remoteClosed = true;
    if (this.row.client) return;
    if (this.#count === 0) this.refuse(MISSING_MESSAGE);
    else if (this.deadlinePassed()) this.refuse(DEADLINE_PASSED);
    else this.#start();
  }

  /**
   * Extends the window only for a handler that waits for more, or before it has started, so that at most one
   * window of data is buffered.
   */
  #extendReceiveWindow(): void {
    if (this.row.client && this.#messageWaiter === undefined) return;
    if (this.#queue.length > 0 || this.#remoteClosed || this.#unextended === 0) return;
    this.stream.extendReceiveWindow(this.#unextended);
    this.#unextended = 0;
  }

  #wakeReader(): void {
    this.#messageWaiter?.resolve();
    this.#messageWaiter = undefined;
  }

  #start(): void {
    const { stream: handle } = this.row;
    if (handle === undefined) return;
    this.stream.handlerStarted();
    const stream = {
      messages: this.#messages(),
      send: (message: Uint8Array) => this.#send(message),
    };
    let done: Promise<void>;
    try {
      done = handle(stream, this);
    } catch (thrown) {
      done = Promise.reject(thrown);
    }
    done
      .then(() => this.#finish())
      .catch((thrown) => this.fail(thrown))
      .finally(() => this.#handlerFinished());
  }

  #finish(): void {
    if (this.row.server) this.complete();
    else if (this.#singleReply !== undefined) this.succeed(this.#singleReply);
    else if (!this.ended) throw new Error(`${this.method} ended without a reply`);
  }

  #handlerFinished(): void {
    this.stopWaiting();
    this.stream.handlerFinished();
  }

  async *#messages(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const batch = this.#queue;
      if (batch.length > 0) {
        this.#queue = [];
        for (const entry of batch) {
          this.#throwIfCancelled();
          const message = entry.compressed ? await this.#inflate(entry.message) : entry.message;
          this.context.meter?.grpcReceived(this.row.metered);
          yield message;
          this.stream.release(entry.reserved + (entry.compressed ? message.length : 0));
        }
      } else if (this.#noMoreMessages()) return;
      else {
        this.#messageWaiter ??= Promise.withResolvers();
        this.#extendReceiveWindow();
        await this.#messageWaiter.promise;
      }
    }
  }

  /** True if no message will follow. Throws unless the call ended with the request. */
  #noMoreMessages(): boolean {
    if (this.#remoteClosed || (this.ended && this.cancelStatus === undefined)) return true;
    this.#throwIfCancelled();
    return false;
  }

  #throwIfCancelled(): void {
    if (this.cancelStatus !== undefined) throw this.cancelFault(this.cancelStatus);
  }

  async #inflate(message: Uint8Array): Promise<Uint8Array> {
    const { encoding } = this.request;
    const { promise, resolve } = Promise.withResolvers<Uint8Array | CallStatus>();
    this.context.inflater.inflate(encoding, message, this, resolve);
    const result = await promise;
    this.#throwIfCancelled();
    if (result instanceof Uint8Array && this.stream.reserve(result.length)) return result;
    const refusal = result instanceof Uint8Array ? TOO_MANY_BUFFERED : result;
    this.refuse(refusal);
    throw this.cancelFault(refusal);
  }

  async #send(message: Uint8Array): Promise<void> {
    if (this.ended) throw new Fault("CANCELLED", "the call is over");
    if (!this.row.server) {
      if (this.#singleReply !== undefined) {
        throw new Fault("INTERNAL", "a client-streaming method sends exactly one reply");
      }
      this.#singleReply = message;
      return;
    }
    const room = this.send(message);
    // The stream may have broken during the write, before it had an exchange to notify.
    if (this.stream.localClosed) this.aborted();
    if (room || this.ended) return;
    this.#roomWaiter ??= Promise.withResolvers();
    await this.#roomWaiter.promise;
  }
}
