// Request bodies: validates the headers that describe one, and collects it up to its limit.

import { Fault } from "#base/fault.ts";
import type { HttpRequest, Route } from "#base/handler.ts";

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
/** The usual content type, which needs no pattern match. */
const PLAIN_JSON_TYPE = "application/json";
/** First buffer for a body that arrives in parts. */
const FIRST_ROOM = 4_096;

export const NO_BODY = new Uint8Array(0);

export function acceptsBody({ body, method }: Route): boolean {
  return body === undefined ? method !== "GET" && method !== "DELETE" : body !== "none";
}

/** True if the headers that describe a body must be valid. */
export function validatesBodyHeaders({ body, forwarded }: Route): boolean {
  return body === "json" && forwarded !== true;
}

/** Throws a Fault with 415 for headers that describe another body than plain JSON. */
export function validateBodyHeaders(headers: HttpRequest["headers"]): void {
  const type = headers["content-type"];
  if (type !== undefined && type !== PLAIN_JSON_TYPE && !JSON_TYPE.test(String(type))) {
    throw unsupported("content-type", "application/json");
  }
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && String(encoding).toLowerCase() !== "identity") {
    throw unsupported("content-encoding", "none");
  }
}

function unsupported(header: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${header} must be ${wanted}`, { http: 415 });
}

export function tooLarge(max: number): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `the body must be at most ${max} bytes`, { http: 413 });
}

/**
 * A body that arrives in parts. A single part is kept as it is; several are copied together, so that a body costs at
 * most twice its size, however small its parts are and whatever memory they are views of.
 */
export class BodyBuffer {
  #memory: Buffer = Buffer.alloc(0);
  #length = 0;
  /** `#memory` is a view of the only part so far and must not be written to. */
  #borrowed = false;

  get length(): number {
    return this.#length;
  }

  get capacity(): number {
    return this.#memory.length;
  }

  /** `whole`: keeping the part keeps nothing else. */
  add(chunk: Buffer, start: number, end: number, whole: boolean): void {
    const more = end - start;
    if (more === 0) return;
    if (this.#length === 0 && whole) {
      this.#memory = chunk.subarray(start, end);
      this.#borrowed = true;
    } else {
      this.#grow(this.#length + more);
      chunk.copy(this.#memory, this.#length, start, end);
    }
    this.#length += more;
  }

  bytes(): Buffer {
    return this.#length === this.#memory.length
      ? this.#memory
      : this.#memory.subarray(0, this.#length);
  }

  #grow(least: number): void {
    if (!this.#borrowed && least <= this.#memory.length) return;
    const room = Buffer.allocUnsafeSlow(Math.max(FIRST_ROOM, least, 2 * this.#length));
    this.#memory.copy(room, 0, 0, this.#length);
    this.#memory = room;
    this.#borrowed = false;
  }
}
