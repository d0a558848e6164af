// Calls with one message each way: nearly all calls. A request that arrives in one piece is passed to its handler
// without copying, and the reply goes directly to the stream.

import type { Exchange } from "#h2/exchange.ts";
import { RunningCall } from "./call.ts";
import { isOneMessage, MessageReader, PREFIX_LENGTH } from "./messages/message-reader.ts";
import {
  DEADLINE_PASSED,
  EXTRA_MESSAGE,
  MISSING_MESSAGE,
  TOO_MANY_BUFFERED,
  TRUNCATED_MESSAGE,
} from "./status.ts";

export class UnaryCall extends RunningCall implements Exchange {
  #reader: MessageReader | undefined;

  /** The stream copies bytes that it cannot send at once. */
  get copiesReply(): boolean {
    return true;
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    const { maxMessage } = this.context;
    if (last && this.#reader === undefined && isOneMessage(chunk, start, end, maxMessage)) {
      this.#run(chunk.subarray(start + PREFIX_LENGTH, end), false);
    } else if (!this.ended) {
      this.#collect(chunk, start, end, last);
    }
  }

  drained(): void {}

  protected override stopWaiting(): void {
    this.#reader = undefined;
  }

  #collect(chunk: Buffer, start: number, end: number, last: boolean): void {
    this.armDeadline();
    this.#reader ??= new MessageReader(this.stream, this.context.maxMessage);
    const reader = this.#reader;
    const at = reader.read(chunk, start, end);
    if (reader.rejection !== undefined) this.refuse(reader.rejection);
    else if (at < end) this.refuse(EXTRA_MESSAGE);
    else if (!last) this.stream.extendReceiveWindow(end - start);
    else if (reader.complete) this.#take(reader);
    else this.refuse(reader.started ? TRUNCATED_MESSAGE : MISSING_MESSAGE);
  }

  /** The memory reserved for the message is released with the stream. */
  #take(reader: MessageReader): void {
    const { compressed } = reader;
    const message = reader.take();
    if (compressed) this.#inflate(message);
    else this.#run(message, true);
  }

  #inflate(message: Uint8Array): void {
    this.stream.handlerStarted();
    this.context.inflater.inflate(this.request.encoding, message, this, (result) => {
      if (!(result instanceof Uint8Array)) this.refuse(result);
      else if (!this.stream.reserve(result.length)) this.refuse(TOO_MANY_BUFFERED);
      else if (this.#run(result, true)) return;
      this.stream.handlerFinished();
    });
  }

  /** `held`: the message's memory is already reserved. Returns whether the handler is still running. */
  #run(message: Uint8Array, held: boolean): boolean {
    if (this.ended) return false;
    const { unary, metered } = this.row;
    if (unary === undefined) return false;
    if (this.deadlinePassed()) {
      this.refuse(DEADLINE_PASSED);
      return false;
    }
    this.context.meter?.grpcReceived(metered);
    let reply: Uint8Array | Promise<Uint8Array>;
    try {
      reply = unary(message, this);
    } catch (thrown) {
      this.fail(thrown);
      return false;
    }
    if (reply instanceof Uint8Array) {
      this.succeed(reply);
      return false;
    }
    this.#wait(reply, held ? 0 : message.length);
    return true;
  }

  /** `unreserved`: bytes of the message that have not been reserved yet. */
  #wait(reply: Promise<Uint8Array>, unreserved: number): void {
    this.armDeadline();
    this.stream.handlerStarted();
    if (unreserved > 0 && !this.stream.reserve(unreserved)) this.refuse(TOO_MANY_BUFFERED);
    reply.then(
      (message) => {
        try {
          this.succeed(message);
        } catch (thrown) {
          this.fail(thrown);
        }
        this.stream.handlerFinished();
      },
      (thrown: unknown) => {
        this.fail(thrown);
        this.stream.handlerFinished();
      },
    );
  }
}
