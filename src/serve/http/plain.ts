// The short way of HTTP/1.1: a connection is answered here as long as its requests are plain, and is Node's for good
// with the first one that is not. Node's server makes a stream of each request and of each reply, which costs as
// much as the decision and more; a plain request needs neither.

import { STATUS_CODES, validateHeaderName, validateHeaderValue } from "node:http";
import type { Socket } from "node:net";
import type { HttpRequest } from "../handler.ts";
import { plainAddress } from "../listen/address.ts";
import { HttpExchange, type Surroundings } from "./exchange.ts";
import { type PlainRequest, readPlain } from "./plain-request.ts";

/** Bytes of further requests that are read while a reply is awaited. */
const MOST_AHEAD = 64 * 1_024;

/** What all plain connections of a server share. */
export class PlainLane {
  readonly around: Surroundings;
  /** Bytes of a head. */
  readonly mostHead: number;
  /** Takes over a connection whose next bytes are `rest`. */
  readonly handOver: (socket: Socket, rest: Buffer) => void;
  readonly #open = new Set<PlainConnection>();
  /** The second that was told last, and how. */
  #second = Number.NaN;
  #date = "";

  constructor(
    around: Surroundings,
    mostHead: number,
    handOver: (socket: Socket, rest: Buffer) => void,
  ) {
    this.around = around;
    this.mostHead = mostHead;
    this.handOver = handOver;
  }

  enter(socket: Socket): void {
    this.#open.add(new PlainConnection(this, socket));
  }

  left(connection: PlainConnection): void {
    this.#open.delete(connection);
  }

  closeIdle(): void {
    for (const connection of [...this.#open]) connection.closeIfIdle();
  }

  /** The end of a head: when it was sent, and what becomes of the connection. */
  ending(close: boolean): string {
    const { clock, settings } = this.around;
    const second = Math.floor(clock.wall() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#date = `Date: ${new Date(second * 1_000).toUTCString()}\r\nConnection: `;
    }
    if (close) return `${this.#date}close\r\n\r\n`;
    const seconds = Math.floor(settings.idle_timeout / 1_000);
    const limit = settings.idle_timeout > 0 ? `Keep-Alive: timeout=${seconds}\r\n` : "";
    return `${this.#date}keep-alive\r\n${limit}\r\n`;
  }
}

class PlainConnection {
  readonly socket: Socket;
  readonly lane: PlainLane;
  /** Whose reply is not out yet. */
  #exchange: PlainExchange | undefined;
  /** Came while a reply was not out yet. */
  #rest: Buffer | undefined;
  #last = false;
  readonly #read = (chunk: Buffer) => this.#take(chunk);
  readonly #written = () => this.#exchange?.written();
  /** As Node's server has it: who closes its half waits for no reply that is not there yet. */
  readonly #end = () => this.socket.destroySoon();
  readonly #late = () => this.closeIfIdle();
  readonly #closed = () => {
    this.lane.left(this);
    this.#exchange?.gone();
  };

  constructor(lane: PlainLane, socket: Socket) {
    this.lane = lane;
    this.socket = socket;
    socket.setTimeout(Math.ceil(lane.around.settings.idle_timeout));
    socket.on("timeout", this.#late);
    socket.on("close", this.#closed);
    socket.on("end", this.#end);
    socket.on("data", this.#read);
  }

  closeIfIdle(): void {
    if (this.#exchange === undefined) this.socket.destroy();
  }

  /** Sends a whole reply; true when the system has taken all of it, else its exchange is told when it has. */
  send(bytes: Buffer): boolean {
    this.socket.write(bytes, this.#written);
    return this.socket.writableLength === 0;
  }

  /** No other request is taken after the one in hand. */
  close(): void {
    this.#last = true;
  }

  /** The exchange is over. */
  over(): void {
    this.#exchange = undefined;
    const { socket } = this;
    // Nobody could be told about another one.
    if (!socket.writable) return;
    if (this.#last || this.lane.around.draining) socket.destroySoon();
    else if (this.#rest !== undefined) {
      this.#leave(this.#rest);
      socket.resume();
    }
  }

  #take(chunk: Buffer): void {
    if (this.#exchange !== undefined) {
      this.#rest = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
      // Reading on shows whether the caller is still there.
      if (this.#rest.length > MOST_AHEAD) this.socket.pause();
      return;
    }
    const { around, mostHead } = this.lane;
    const request = around.leaving ? undefined : readPlain(chunk, mostHead);
    if (request === undefined) {
      this.#leave(chunk);
      return;
    }
    this.#exchange = new PlainExchange(around, this);
    this.#exchange.answer(request);
  }

  #leave(rest: Buffer): void {
    const { socket, lane } = this;
    socket.setTimeout(0);
    socket.off("timeout", this.#late);
    socket.off("close", this.#closed);
    socket.off("end", this.#end);
    socket.off("data", this.#read);
    lane.left(this);
    lane.handOver(socket, rest);
  }
}

class PlainExchange extends HttpExchange {
  readonly httpMethod = "POST";
  readonly copiesReply = true;
  readonly #connection: PlainConnection;
  #request: PlainRequest = NOTHING;
  #over = false;

  constructor(around: Surroundings, connection: PlainConnection) {
    super(around);
    this.#connection = connection;
  }

  answer(request: PlainRequest): void {
    this.#request = request;
    this.begin();
  }

  get headers(): HttpRequest["headers"] {
    return this.#request.headers;
  }

  get peer(): string {
    return plainAddress(this.#connection.socket.remoteAddress ?? "");
  }

  /** What was sent has left. */
  written(): void {
    if (super.answered) this.ended(true);
  }

  /** The connection is closed. */
  gone(): void {
    this.ended(false);
  }

  protected get requestTarget(): string {
    return this.#request.target;
  }

  protected get unfinished(): boolean {
    return false;
  }

  protected override get answered(): boolean {
    return super.answered || this.#connection.socket.destroyed;
  }

  /** What could be refused is not read here. */
  protected judgeHead(): void {}

  protected collect(): void {
    const { chunk, bodyStart } = this.#request;
    this.part(chunk, bodyStart, chunk.length, true);
    this.complete();
  }

  protected transmit(
    status: number,
    fields: readonly string[],
    body: Uint8Array | string,
    length: number,
  ): boolean {
    const connection = this.#connection;
    const { leaving } = this.around;
    if (leaving) connection.close();
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
    for (let at = 0; at < fields.length; at += 2)
      head += line(fields[at] ?? "", fields[at + 1] ?? "");
    head += connection.lane.ending(leaving);
    const bytes = Buffer.allocUnsafe(head.length + length);
    bytes.write(head, 0, "latin1");
    if (typeof body === "string") bytes.write(body, head.length);
    else bytes.set(body, head.length);
    return connection.send(bytes);
  }

  protected refuseRest(): void {}

  protected cut(): void {
    this.#connection.socket.destroy();
  }

  protected waits(): void {}

  protected override ended(whole: boolean): void {
    super.ended(whole);
    if (this.#over) return;
    this.#over = true;
    this.#connection.over();
  }
}

const NOTHING: PlainRequest = { target: "", headers: {}, chunk: Buffer.alloc(0), bodyStart: 0 };

function line(name: string, value: string): string {
  validateHeaderName(name);
  validateHeaderValue(name, value);
  return `${name}: ${value}\r\n`;
}
