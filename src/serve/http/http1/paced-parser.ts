// Hands what an HTTP/1.1 connection has sent to Node's parser when it is the connection's turn. Node's server handles
// all requests that it finds in one read, so without turns a few dozen connections that pipeline requests would fill
// every turn of the event loop, and a new connection would wait for many of them.

import type { Socket } from "node:net";
import type { Turns, Waiting } from "../../turns.ts";

/** Bytes that may wait. Node's server may resume a paused socket when a reply is complete. */
const MAX_HELD = 256 * 1_024;

/** The listeners of Node's server on a connection. */
interface NodeListeners {
  parse(chunk: Buffer): void;
  end(): void;
}

export class PacedParser implements Waiting {
  since = 0;
  readonly #socket: Socket;
  readonly #turns: Turns;
  readonly #node: NodeListeners;
  /** Bytes that were read before it was this connection's turn. While there are some, it waits in line. */
  #held: Buffer | undefined;
  #inLine = false;
  /** The caller has closed its half behind bytes that are held. */
  #ended = false;

  constructor(socket: Socket, turns: Turns, node: NodeListeners) {
    this.#socket = socket;
    this.#turns = turns;
    this.#node = node;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("end", () => {
      if (this.#held === undefined) this.#end();
      else this.#ended = true;
    });
  }

  work(): boolean {
    this.#inLine = false;
    // Before its bytes are parsed: Node's server may pause it again.
    this.#socket.resume();
    this.#parseHeld();
    return false;
  }

  #receive(chunk: Buffer): void {
    if (this.#held === undefined && this.#turns.enter()) {
      this.#node.parse(chunk);
      return;
    }
    this.#held = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    if (this.#held.length > MAX_HELD) {
      this.#parseHeld();
      return;
    }
    this.#socket.pause();
    if (this.#inLine) return;
    this.#inLine = true;
    this.since = this.#turns.now();
    this.#turns.wait(this);
  }

  #parseHeld(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined && this.#attached) this.#node.parse(held);
    // Node's server closes at the end, but the replies to pipelined requests leave one after the other in this turn.
    if (this.#ended) setImmediate(() => this.#end());
  }

  #end(): void {
    if (this.#attached) this.#node.end();
  }

  /** Node's server still reads from the connection. Listeners are removed when it no longer does. */
  get #attached(): boolean {
    return !this.#socket.destroyed && this.#socket.listenerCount("data") > 0;
  }
}
