// What a request may carry: judged by its headers, then collected within its bound.

import { Fault } from "#base/fault.ts";
import type { HttpRequest, Route } from "../handler.ts";

/** A longer body is refused (413), not cut. */
const DEFAULT_MAX_BODY = 1024 * 1024;
const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
/** What nearly everyone sends, which needs no pattern to be known. */
const PLAIN_JSON_TYPE = "application/json";
/** First room of a body that comes in parts. */
const FIRST_ROOM = 4_096;

export const NO_BODY = new Uint8Array(0);

export function takesBody({ body, method }: Route): boolean {
  return body === undefined ? method !== "GET" && method !== "DELETE" : body !== "none";
}

export function maxBody(route: Route): number {
  return route.maxBody ?? DEFAULT_MAX_BODY;
}

/** Refuses by its headers what the route does not take: 415, and 413 where the length is announced. */
export function judgeBody(headers: HttpRequest["headers"], route: Route): void {
  if (route.body === "json") {
    const type = headers["content-type"];
    if (type !== undefined && type !== PLAIN_JSON_TYPE && !JSON_TYPE.test(String(type))) {
      throw unsupported("content-type", "application/json");
    }
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && String(encoding).toLowerCase() !== "identity") {
      throw unsupported("content-encoding", "none");
    }
  }
  const length = headers["content-length"];
  if (length !== undefined && Number(length) > maxBody(route)) throw tooLarge(maxBody(route));
}

function unsupported(header: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${header} must be ${wanted}`, { http: 415 });
}

export function tooLarge(max: number): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `the body must be at most ${max} bytes`, { http: 413 });
}

/**
 * A body that comes in parts. A single part is kept as it is; more are copied together as they come, so that a
 * body costs at most twice its bytes however small its parts are and whatever memory they are views of.
 */
export class Collected {
  #room: Buffer = Buffer.alloc(0);
  #length = 0;
  /** The only part so far: `room` is a view of memory that is not ours to write. */
  #lent = false;

  get length(): number {
    return this.#length;
  }

  /** Bytes of memory that are kept. */
  get kept(): number {
    return this.#room.length;
  }

  /** `whole`: the part stands for all its memory, so that to keep it keeps nothing else. */
  add(chunk: Buffer, start: number, end: number, whole: boolean): void {
    const more = end - start;
    if (more === 0) return;
    if (this.#length === 0 && whole) {
      this.#room = chunk.subarray(start, end);
      this.#lent = true;
    } else {
      this.#grow(this.#length + more);
      chunk.copy(this.#room, this.#length, start, end);
    }
    this.#length += more;
  }

  bytes(): Buffer {
    return this.#length === this.#room.length ? this.#room : this.#room.subarray(0, this.#length);
  }

  #grow(least: number): void {
    if (!this.#lent && least <= this.#room.length) return;
    const room = Buffer.allocUnsafeSlow(Math.max(FIRST_ROOM, least, 2 * this.#length));
    this.#room.copy(room, 0, 0, this.#length);
    this.#room = room;
    this.#lent = false;
  }
}
