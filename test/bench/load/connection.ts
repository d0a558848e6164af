// A connection of the load generator, whatever protocol it speaks. Requests are written byte by byte: a client
// library would need more processor time for a call than the server under test.

import { createConnection, type NetConnectOpts, type Socket } from "node:net";

/** `127.0.0.1:port` or `unix:/path`. */
export type Target = string;

/** One connection. `send` gathers requests, `flush` puts them on the wire in one write. */
export interface Connection {
  /** True if one more request may be sent now. */
  ready(): boolean;
  /** Adds a request. `tag` is passed back with its answer; `key` is the user that the request names. */
  send(tag: number, key: number): void;
  flush(): void;
  close(): void;
  /** Number of calls that wait for their answers. */
  readonly inFlight: number;
  /** Bytes of all replies' messages so far. */
  readonly received: number;
}

/** Callbacks of a connection. */
export interface ConnectionEvents {
  /** A call ended well. Its reply is given for one call in `SAMPLE_EVERY` only. */
  answered(tag: number, sample: Buffer | undefined): void;
  failed(what: string): void;
  /** All answers of one read have been passed on. Requests sent now leave in one write. */
  drained(connection: Connection): void;
}

/** Opens a connection that can have up to `calls` calls in flight. */
export type OpenConnection = (
  target: Target,
  events: ConnectionEvents,
  calls: number,
) => Promise<Connection>;

/** One answer in this many is kept, to be decoded and checked. */
export const SAMPLE_EVERY = 500;

/** Receives the bytes of one read, which are valid only until it returns. */
export type Read = (bytes: Buffer, length: number) => void;

/** Read buffer of all connections: a read is over when its reader returns. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

/** Connects to the target. Without `read` the bytes arrive as `data` events. */
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
    read(READ_BUFFER, length);
    return true;
  };
  return { onread: { buffer: READ_BUFFER, callback } };
}

/** The bytes of a request with a key of fixed width inside. Each request is one copy with its own key. */
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

  /** Copies the request into `into` and writes the digits of the key. */
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

/** Placeholder of the key in a template. */
export const KEY_PLACE = "00000000";

const ROOM = 64 * 1024;

/** Gathers requests until one write sends them. */
export class Outgoing {
  readonly #socket: Socket;
  #bytes = Buffer.allocUnsafe(0);
  #end = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** The buffer in which `take` reserves room. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  /** Reserves this many bytes and returns their index in `bytes`. */
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
    // Bytes that the system has not accepted yet are still read from this memory.
    if (this.#socket.writableLength > 0) this.#bytes = this.#bytes.subarray(this.#end);
    this.#end = 0;
  }
}
