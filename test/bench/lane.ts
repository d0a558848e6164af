// What the load generator sees of one connection, whatever protocol it speaks. Requests are written by
// hand, byte for byte: a client library would need more time for a call than the server under test.

import { createConnection, type NetConnectOpts, type Socket } from "node:net";

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
  /** Calls that wait for their answers. */
  readonly inFlight: number;
  /** Bytes of all replies' messages so far. */
  readonly received: number;
}

/** Reply bytes are given for samples only; a call that did not end well counts as failed. */
export interface LaneEvents {
  answered(tag: number, sample: Buffer | undefined): void;
  failed(what: string): void;
  /** Everything that one read brought was handed out; what is sent now leaves in one write. */
  rest(lane: Lane): void;
}

/** Knows how many calls it may have to remember at once. */
export type OpenLane = (target: Target, events: LaneEvents, calls: number) => Promise<Lane>;

/** One answer in this many is kept to be decoded. */
export const SAMPLE_EVERY = 500;

/** Gives what was read, which is only there until it returns. */
export type Read = (bytes: Buffer, length: number) => void;

/** One for all connections: a read is over when its reader returns, and the next one may overwrite it. */
const ARRIVAL = Buffer.allocUnsafeSlow(256 * 1024);

/** Without a reader the bytes come as `data` events. */
export function dial(target: Target, read?: Read): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = createConnection({ ...address(target), ...reading(read) });
  socket.setNoDelay(true);
  socket.once("connect", () => resolve(socket));
  socket.once("error", reject);
  return promise;
}

function address(target: Target): NetConnectOpts {
  return target.startsWith("unix:")
    ? { path: target.slice("unix:".length) }
    : { port: Number(target.slice(target.lastIndexOf(":") + 1)), host: "127.0.0.1" };
}

function reading(read: Read | undefined): Pick<NetConnectOpts, "onread"> {
  if (read === undefined) return {};
  const callback = (length: number): boolean => {
    read(ARRIVAL, length);
    return true;
  };
  return { onread: { buffer: ARRIVAL, callback } };
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

  /** Writes the bytes with the key's digits. */
  put(key: number, into: Buffer, start: number): void {
    into.set(this.#bytes, start);
    let rest = key | 0;
    for (let at = start + this.#at + KEY_PLACE.length - 1; rest > 0; at--) {
      const tens = (rest / 10) | 0;
      into[at] = 48 + rest - tens * 10;
      rest = tens;
    }
  }
}

/** Where a template wants the key. */
export const KEY_PLACE = "00000000";

const ROOM = 64 * 1024;

/** Gathers what one write will carry. */
export class Outgoing {
  readonly #socket: Socket;
  #bytes = Buffer.allocUnsafe(0);
  #end = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Where `take` made room. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  /** Makes room for this many bytes; returns the index in `bytes` from which on they go. */
  take(size: number): number {
    if (this.#end + size > this.#bytes.length) {
      this.flush();
      if (size > this.#bytes.length) this.#bytes = Buffer.allocUnsafeSlow(Math.max(ROOM, size));
    }
    const at = this.#end;
    this.#end += size;
    return at;
  }

  flush(): void {
    if (this.#end === 0) return;
    this.#socket.write(this.#bytes.subarray(0, this.#end));
    // What the system has not taken at once is still to be read from this memory.
    if (this.#socket.writableLength > 0) this.#bytes = this.#bytes.subarray(this.#end);
    this.#end = 0;
  }
}
