// One message in, one message out: the path that nearly all calls take. The whole request in one piece goes
// straight to its handler, and the reply straight to the stream.

import type { Exchange } from "../h2/exchange.ts";
import { RunningCall } from "./call.ts";
import { isOneMessage, MessageReader, PREFIX } from "./message-reader.ts";
import { LATE, NO_MESSAGE, TOO_MUCH, TRUNCATED, TWO_MESSAGES } from "./status.ts";

export class UnaryCall extends RunningCall implements Exchange {
  #reader: MessageReader | undefined;

  /** What a stream cannot send at once it copies. */
  get copiesReply(): boolean {
    return true;
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    if (last && this.#reader === undefined && isOneMessage(chunk, start, end)) {
      this.#run(chunk.subarray(start + PREFIX, end), false);
    } else if (!this.ended) {
      this.#collect(chunk, start, end, last);
    }
  }

  drained(): void {}

  protected override forget(): void {
    this.#reader = undefined;
  }

  #collect(chunk: Buffer, start: number, end: number, last: boolean): void {
    this.arm();
    this.#reader ??= new MessageReader(this.stream);
    const reader = this.#reader;
    const at = reader.read(chunk, start, end);
    if (reader.refusal !== undefined) this.refuse(reader.refusal);
    else if (at < end) this.refuse(TWO_MESSAGES);
    else if (!last) this.stream.credit(end - start);
    else if (reader.whole) this.#take(reader);
    else this.refuse(reader.begun ? TRUNCATED : NO_MESSAGE);
  }

  /** What is held for the message is released with the stream. */
  #take(reader: MessageReader): void {
    const { compressed } = reader;
    const message = reader.take();
    if (compressed) this.#inflate(message);
    else this.#run(message, true);
  }

  #inflate(message: Uint8Array): void {
    this.stream.work();
    this.door.inflater.inflate(this.request.encoding, message, this, (result) => {
      if (!(result instanceof Uint8Array)) this.refuse(result);
      else if (!this.stream.hold(result.length)) this.refuse(TOO_MUCH);
      else if (this.#run(result, true)) return;
      this.stream.rest();
    });
  }

  /** `held`: the message counts as kept. Returns whether the handler is still at work. */
  #run(message: Uint8Array, held: boolean): boolean {
    if (this.ended) return false;
    const { unary, metered } = this.row;
    if (unary === undefined) return false;
    if (this.overdue()) {
      this.refuse(LATE);
      return false;
    }
    this.door.meter?.grpcReceived(metered);
    let reply: Uint8Array | Promise<Uint8Array>;
    try {
      reply = unary(message, this);
    } catch (thrown) {
      this.fail(thrown);
      return false;
    }
    if (reply instanceof Uint8Array) {
      this.answer(reply);
      return false;
    }
    this.#wait(reply, held ? 0 : message.length);
    return true;
  }

  /** `kept`: bytes of the message that nobody has counted yet. */
  #wait(reply: Promise<Uint8Array>, kept: number): void {
    this.arm();
    this.stream.work();
    if (kept > 0 && !this.stream.hold(kept)) this.refuse(TOO_MUCH);
    reply
      .then((message) => this.answer(message))
      .catch((thrown) => this.fail(thrown))
      .finally(() => this.stream.rest());
  }
}
