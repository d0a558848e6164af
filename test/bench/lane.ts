// What the load generator sees of one connection, whatever protocol it speaks. Requests are written by
// hand, byte for byte: a client library would need more time for a call than the server under test.

import { connect, type Socket } from "node:net";

/** `127.0.0.1:port` or `unix:/path`. */
export type Target = string;

/** One connection. `send` gathers requests, `flush` puts them on the wire in one write. */
export interface Lane {
  /** Whether one more request may be sent now. */
  ready(): boolean;
  /** `tag` comes back with the answer; `key` is the user that the request names. */
  send(tag: number, key: number): void;
  flush(): void;
  close(): void;
}

/** Reply bytes are given for samples only; a call that did not end well counts as failed. */
export interface LaneEvents {
  answered(lane: Lane, tag: number, sample: Buffer | undefined): void;
  failed(what: string): void;
  /** Everything that one read brought was handed out. */
  rest(lane: Lane): void;
}

export type OpenLane = (target: Target, events: LaneEvents) => Promise<Lane>;

/** One answer in this many is kept to be decoded. */
export const SAMPLE_EVERY = 500;

export function dial(target: Target): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = target.startsWith("unix:")
    ? connect(target.slice("unix:".length))
    : connect(Number(target.slice(target.lastIndexOf(":") + 1)), "127.0.0.1");
  socket.setNoDelay(true);
  socket.once("connect", () => resolve(socket));
  socket.once("error", reject);
  return promise;
}

/** Bytes with a number of fixed width inside, one copy for each request. */
export class Template {
  readonly length: number;
  readonly #bytes: Buffer;
  readonly #at: number;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.length = bytes.length;
    this.#at = bytes.indexOf(KEY_PLACE);
    if (this.#at < 0) throw new Error("the template has no place for a key");
  }

  /** Writes the bytes with the key's digits; returns where they end. */
  put(key: number, into: Buffer, start: number): number {
    into.set(this.#bytes, start);
    let rest = key;
    for (let digit = KEY_PLACE.length - 1; digit >= 0; digit--) {
      into[start + this.#at + digit] = 48 + (rest % 10);
      rest = Math.floor(rest / 10);
    }
    return start + this.length;
  }
}

/** Where a template wants the key. */
export const KEY_PLACE = "00000000";

/** Gathers what one write will carry. */
export class Outgoing {
  readonly #socket: Socket;
  #bytes = Buffer.allocUnsafe(0);
  #end = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Room for this many bytes: where they go, and from which index on. */
  room(size: number): { readonly bytes: Buffer; readonly at: number } {
    if (this.#end + size > this.#bytes.length) {
      this.flush();
      this.#bytes = Buffer.allocUnsafe(Math.max(64 * 1024, size));
      this.#end = 0;
    }
    const at = this.#end;
    this.#end += size;
    return { bytes: this.#bytes, at };
  }

  flush(): void {
    if (this.#end === 0) return;
    this.#socket.write(this.#bytes.subarray(0, this.#end));
    // The socket may still read what it was given: the rest of the memory is used next.
    this.#bytes = this.#bytes.subarray(this.#end);
    this.#end = 0;
  }
}
