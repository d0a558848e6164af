// Writes the replies of the fast path, each in one piece.

import type { Socket } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { HttpSettings } from "../../settings.ts";
import { replyHead } from "../reply.ts";

/**
 * Replies up to this size are written from the same memory, since the system nearly always accepts a whole reply at
 * once. A reply that it does not accept keeps the memory.
 */
const SHARED_MEMORY = 8 * 1_024;

interface ReplyContext {
  readonly clock: Clock;
  readonly settings: Pick<HttpSettings, "idle_timeout">;
}

export class FastReplyWriter {
  readonly #context: ReplyContext;
  /** The ends of header sections for the current second. */
  #second = Number.NaN;
  #keptOpen = "";
  #closed = "";
  #memory: Buffer | undefined;

  constructor(context: ReplyContext) {
    this.#context = context;
  }

  /**
   * The header section of a reply. `fields` alternates names and values, `now` is a recent clock reading, and `close`
   * says that the connection closes. Throws if a field is invalid.
   */
  head(status: number, fields: readonly string[], now: number, close: boolean): string {
    return replyHead(status, fields) + this.#headEnd(now, close);
  }

  /** Sends a reply whose body has `length` bytes. Returns true if the system has accepted all of it. */
  send(socket: Socket, head: string, body: Uint8Array | string, length: number): boolean {
    const size = head.length + length;
    const bytes = this.#memoryFor(size);
    bytes.write(head, 0, head.length, "latin1");
    if (typeof body === "string") bytes.write(body, head.length, length, "utf8");
    else bytes.set(body, head.length);
    socket.write(bytes.subarray(0, size));
    if (socket.writableLength === 0) return true;
    // The socket still reads from it.
    this.#memory = undefined;
    return false;
  }

  #memoryFor(size: number): Buffer {
    if (size > SHARED_MEMORY) return Buffer.allocUnsafe(size);
    this.#memory ??= Buffer.allocUnsafeSlow(SHARED_MEMORY);
    return this.#memory;
  }

  #headEnd(now: number, close: boolean): string {
    const second = Math.floor(this.#context.clock.wallOf(now) / 1_000);
    if (second !== this.#second) this.#makeEnds(second);
    return close ? this.#closed : this.#keptOpen;
  }

  #makeEnds(second: number): void {
    const { idle_timeout } = this.#context.settings;
    const date = `Date: ${new Date(second * 1_000).toUTCString()}\r\nConnection: `;
    const limit = `Keep-Alive: timeout=${Math.floor(idle_timeout / 1_000)}\r\n`;
    this.#second = second;
    this.#keptOpen = `${date}keep-alive\r\n${idle_timeout > 0 ? limit : ""}\r\n`;
    this.#closed = `${date}close\r\n\r\n`;
  }
}
