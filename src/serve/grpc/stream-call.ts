// Calls of which a side may send any number of messages. Handlers take messages at their pace and wait for room;
// a caller that sends ahead fills its window and no more.

import { Fault } from "#base/fault.ts";
import type { Exchange, Stream } from "../h2/exchange.ts";
import { type Door, RunningCall } from "./call.ts";
import { MessageReader } from "./message-reader.ts";
import type { MethodRow } from "./methods.ts";
import type { GrpcRequest } from "./request.ts";
import { LATE, NO_MESSAGE, type Refusal, TOO_MUCH, TRUNCATED, TWO_MESSAGES } from "./status.ts";

/** What a waiting message costs beside its bytes: empty ones in any number are not free. */
const ENTRY = 256;

interface Entry {
  readonly message: Uint8Array;
  readonly compressed: boolean;
  readonly held: number;
}

export class StreamCall extends RunningCall implements Exchange {
  readonly #reader: MessageReader;
  /** Messages that nobody has taken. */
  #queue: Entry[] = [];
  #count = 0;
  /** Bytes that have come and that the caller has not been allowed anew. */
  #owed = 0;
  #heard = false;
  /** The only reply of a client's stream. */
  #only: Uint8Array | undefined;
  #more: PromiseWithResolvers<void> | undefined;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(door: Door, stream: Stream, request: GrpcRequest, row: MethodRow) {
    super(door, stream, request, row);
    this.#reader = new MessageReader(stream);
    this.arm();
    if (row.client) this.#start();
  }

  data(chunk: Buffer, start: number, end: number, last: boolean): void {
    if (this.ended) return;
    const reader = this.#reader;
    let at = start;
    while (at < end) {
      at = reader.read(chunk, at, end);
      const refusal = reader.refusal ?? (reader.whole ? this.#enqueue() : undefined);
      if (refusal !== undefined) {
        this.refuse(refusal);
        return;
      }
    }
    this.#owed += end - start;
    if (last) this.#hear();
    else this.#credit();
    if (last || this.#queue.length > 0) this.#wake();
  }

  drained(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  /**
   * Between two messages a stream may take its time, but not within one, as what has come of it is kept. While the
   * handler does not wait for it, the peer may lack the window to send the rest.
   */
  get begun(): number {
    if (!this.row.client) return 1;
    return this.#reader.begun && this.#more !== undefined ? this.#count + 1 : 0;
  }

  protected override forget(): void {
    // Who reads on must not take what is missing for the end.
    if (this.#queue.length > 0) this.#heard = false;
    this.#queue = [];
    this.#wake();
    this.drained();
  }

  #enqueue(): Refusal | undefined {
    const reader = this.#reader;
    if (!this.row.client && this.#count > 0) return TWO_MESSAGES;
    if (!this.stream.hold(ENTRY)) return TOO_MUCH;
    this.#count++;
    const { compressed, held } = reader;
    this.#queue.push({ message: reader.take(), compressed, held: held + ENTRY });
    return undefined;
  }

  /** The request is whole, or should be. */
  #hear(): void {
    if (this.#reader.begun) {
      this.refuse(TRUNCATED);
      return;
    }
    this.#heard = true;
    if (this.row.client) return;
    if (this.#count === 0) this.refuse(NO_MESSAGE);
    else if (this.overdue()) this.refuse(LATE);
    else this.#start();
  }

  /** Only to a handler that waits for more, or before it has begun: so what waits is never more than a window. */
  #credit(): void {
    if (this.row.client && this.#more === undefined) return;
    if (this.#queue.length > 0 || this.#heard || this.#owed === 0) return;
    this.stream.credit(this.#owed);
    this.#owed = 0;
  }

  #wake(): void {
    this.#more?.resolve();
    this.#more = undefined;
  }

  #start(): void {
    const { stream: handle } = this.row;
    if (handle === undefined) return;
    this.stream.work();
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
      .finally(() => this.#stop());
  }

  #finish(): void {
    if (this.row.server) this.complete();
    else if (this.#only !== undefined) this.answer(this.#only);
    else if (!this.ended) throw new Error(`${this.method} ended without a reply`);
  }

  #stop(): void {
    this.forget();
    this.stream.rest();
  }

  async *#messages(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const batch = this.#queue;
      if (batch.length > 0) {
        this.#queue = [];
        for (const entry of batch) {
          this.#mustGoOn();
          const message = entry.compressed ? await this.#inflate(entry.message) : entry.message;
          this.door.meter?.grpcReceived(this.row.metered);
          yield message;
          this.stream.release(entry.held + (entry.compressed ? message.length : 0));
        }
      } else if (this.#over()) return;
      else {
        this.#more ??= Promise.withResolvers();
        this.#credit();
        await this.#more.promise;
      }
    }
  }

  /** No message comes any more. Throws when that is not how the caller meant it. */
  #over(): boolean {
    if (this.#heard || (this.ended && this.cut === undefined)) return true;
    this.#mustGoOn();
    return false;
  }

  #mustGoOn(): void {
    if (this.cut !== undefined) throw this.told(this.cut);
  }

  async #inflate(message: Uint8Array): Promise<Uint8Array> {
    const { encoding } = this.request;
    const { promise, resolve } = Promise.withResolvers<Uint8Array | Refusal>();
    this.door.inflater.inflate(encoding, message, this, resolve);
    const result = await promise;
    this.#mustGoOn();
    if (result instanceof Uint8Array && this.stream.hold(result.length)) return result;
    const refusal = result instanceof Uint8Array ? TOO_MUCH : result;
    this.refuse(refusal);
    throw this.told(refusal);
  }

  async #send(message: Uint8Array): Promise<void> {
    if (this.ended) throw new Fault("CANCELLED", "the call is over");
    if (!this.row.server) {
      if (this.#only !== undefined) {
        throw new Fault("INTERNAL", "one reply is all a client stream gets");
      }
      this.#only = message;
      return;
    }
    const room = this.send(message);
    // A stream that broke while it was written to may have had no exchange yet that could be told.
    if (this.stream.closed) this.gone();
    if (room || this.ended) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }
}
