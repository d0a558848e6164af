// Posts JSON over one HTTP/1.1 connection that is kept alive, one request at a time.

import type { Socket } from "node:net";
import {
  type Connection,
  type ConnectionEvents,
  dial,
  type OpenConnection,
  Outgoing,
  SAMPLE_EVERY,
  Template,
} from "./connection.ts";

export function http1Connections(path: string, body: Buffer): OpenConnection {
  const head =
    `POST ${path} HTTP/1.1\r\nhost: sluice\r\ncontent-type: application/json\r\n` +
    `content-length: ${body.length}\r\n\r\n`;
  const request = new Template(Buffer.concat([Buffer.from(head), body]));
  return async (target, events) => new Http1Connection(await dial(target), events, request);
}

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: (\d+)\r\n/i;

class Http1Connection implements Connection {
  inFlight = 0;
  received = 0;
  readonly #socket: Socket;
  readonly #out: Outgoing;
  readonly #events: ConnectionEvents;
  readonly #request: Template;
  #tag = 0;
  #count = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, events: ConnectionEvents, request: Template) {
    this.#socket = socket;
    this.#out = new Outgoing(socket);
    this.#events = events;
    this.#request = request;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (cause) => events.failed(cause.message));
    socket.on("close", () => events.failed("the connection was closed"));
  }

  ready(): boolean {
    return this.inFlight === 0;
  }

  send(tag: number, key: number): void {
    this.inFlight = 1;
    this.#tag = tag;
    const at = this.#out.take(this.#request.length);
    this.#request.put(key, this.#out.bytes, at);
  }

  flush(): void {
    this.#out.flush();
  }

  close(): void {
    this.#socket.removeAllListeners();
    this.#socket.on("error", () => undefined);
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#rest = bytes;
    const headEnd = bytes.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = bytes.toString("latin1", 0, headEnd + 2);
    const start = headEnd + HEAD_END.length;
    const end = start + Number(LENGTH.exec(head)?.[1] ?? Number.NaN);
    if (bytes.length < end) return;
    if (!head.startsWith("HTTP/1.1 200 ") || bytes.length !== end)
      this.#events.failed(head.slice(0, head.indexOf("\r")));
    this.#rest = Buffer.alloc(0);
    this.inFlight = 0;
    this.received += end - start;
    const kept = this.#count++ % SAMPLE_EVERY === 0;
    this.#events.answered(this.#tag, kept ? bytes.subarray(start, end) : undefined);
    this.#events.drained(this);
    this.flush();
  }
}
