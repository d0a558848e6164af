// Passes the bytes of an HTTP/1.1 connection to Node's parser as the scheduler allows, a few requests at a time. Node's
// server handles all requests of one read, which may be hundreds: a few dozen connections that pipeline requests would
// fill every turn of the event loop, and a new connection would wait for all of them.

import type { Socket } from "node:net";
import type { PooledBytes } from "#h2/read-buffers.ts";
import type { QueuedReader, ReadScheduler } from "#h2/read-scheduler.ts";

/** About five checks. */
const SLICE = 1_024;
/** Slices end at the end of a header section, since errors of Node's parser do not say where they were found. */
const EMPTY_LINE = "\r\n\r\n";

/** The listeners of Node's server on a connection. */
interface NodeListeners {
  parse(chunk: Buffer): void;
  end(): void;
}

export class PacedParser implements QueuedReader {
  since = 0;
  readonly #socket: Socket;
  readonly #scheduler: ReadScheduler;
  readonly #node: NodeListeners;
  /**
   * Bytes that Node's parser has not seen. While there are any, the connection is queued, or its caller must read
   * replies first.
   */
  #held: Buffer | undefined;
  /** The same while the connection is queued. */
  #waiting: PooledBytes | undefined;
  #queued = false;
  /** The caller has closed its half behind bytes that are held. */
  #ended = false;

  constructor(socket: Socket, scheduler: ReadScheduler, node: NodeListeners) {
    this.#socket = socket;
    this.#scheduler = scheduler;
    this.#node = node;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    // Node's server pauses a connection whose caller does not read its replies, and resumes it when it has.
    socket.on("resume", () => {
      if (this.heldBytes > 0 && !socket.isPaused()) this.#wait();
    });
    socket.on("end", () => {
      if (this.heldBytes === 0) this.#end();
      else this.#ended = true;
    });
  }

  /** Bytes that Node's parser has not seen. */
  get heldBytes(): number {
    return this.#held?.length ?? this.#waiting?.length ?? 0;
  }

  /** Parses as much as the time slice allows; a first part in any case. */
  parse(chunk: Buffer): void {
    this.#held = this.#takeWith(chunk);
    const socket = this.#socket;
    do {
      const held: Buffer = this.#held;
      const end = sliceEnd(held);
      this.#held = end < held.length ? held.subarray(end) : undefined;
      this.#node.parse(held.subarray(0, end));
    } while (
      this.#held !== undefined &&
      this.#attached &&
      !socket.isPaused() &&
      this.#scheduler.mayContinue
    );
    if (!this.#attached) this.#take();
    if (this.#held !== undefined && !socket.isPaused()) this.#wait();
    // Node's server closes at the end, but the replies to pipelined requests leave one by one in this turn.
    if (this.heldBytes === 0 && this.#ended) setImmediate(() => this.#end());
  }

  work(): boolean {
    this.#queued = false;
    const held = this.#take();
    // Before its bytes are parsed: Node's server may pause it again.
    this.#socket.resume();
    if (held !== undefined && this.#attached) this.parse(held);
    return false;
  }

  #receive(chunk: Buffer): void {
    if (this.heldBytes === 0 && this.#scheduler.startSlice()) {
      this.parse(chunk);
      return;
    }
    this.#held = this.#takeWith(chunk);
    this.#wait();
  }

  #wait(): void {
    this.#socket.pause();
    if (this.#held !== undefined) this.#waiting = this.#scheduler.buffers.store(this.#held);
    this.#held = undefined;
    if (this.#queued) return;
    this.#queued = true;
    this.since = this.#scheduler.now();
    this.#scheduler.enqueue(this);
  }

  /** Takes and returns the bytes that are held. */
  #take(): Buffer | undefined {
    const held = this.#held ?? this.#waiting?.copy();
    this.#waiting?.release();
    this.#held = undefined;
    this.#waiting = undefined;
    return held;
  }

  #takeWith(chunk: Buffer): Buffer {
    const held = this.#take();
    return held === undefined ? chunk : Buffer.concat([held, chunk]);
  }

  #end(): void {
    if (this.#attached) this.#node.end();
  }

  /** Node's server still reads from the connection: it removes its listeners when it stops. */
  get #attached(): boolean {
    return !this.#socket.destroyed && this.#socket.listenerCount("data") > 0;
  }
}

/** The end of the first slice: after the header sections that are complete in it, or else after the next one. */
function sliceEnd(bytes: Buffer): number {
  if (bytes.length <= SLICE) return bytes.length;
  const last = bytes.lastIndexOf(EMPTY_LINE, SLICE - EMPTY_LINE.length, "latin1");
  const found = last === -1 ? bytes.indexOf(EMPTY_LINE, 0, "latin1") : last;
  return found === -1 ? bytes.length : found + EMPTY_LINE.length;
}
