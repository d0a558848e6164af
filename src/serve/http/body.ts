// Reads a request's body within its bound, after its headers have been judged.

import type { IncomingMessage } from "node:http";
import { Fault } from "#base/fault.ts";
import type { Route } from "../handler.ts";

/** A longer body is refused (413), not cut. */
const DEFAULT_MAX_BODY = 1024 * 1024;
const EMPTY = new Uint8Array(0);
const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;

/** Does the message announce any body? */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}

/** Refuses by its headers what the route does not take: 415, and 413 where the length is announced. */
export function judgeBody({ headers }: IncomingMessage, route: Route): void {
  if (route.body === "json") {
    const type = headers["content-type"];
    if (type !== undefined && !JSON_TYPE.test(type))
      throw unsupported("content-type", "application/json");
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
      throw unsupported("content-encoding", "none");
    }
  }
  const max = route.maxBody ?? DEFAULT_MAX_BODY;
  if (Number(headers["content-length"] ?? 0) > max) throw tooLarge(max);
}

/** Hands the whole body to `done`, or to `failed` why there is none. Exactly one of them is called, once. */
export function readBody(
  request: IncomingMessage,
  route: Route,
  done: (body: Uint8Array) => void,
  failed: (thrown: unknown) => void,
): void {
  const max = route.maxBody ?? DEFAULT_MAX_BODY;
  let chunks: Buffer[] = [];
  let length = 0;
  // To take listeners off again costs more than to let them find out that it is over.
  let settled = false;
  const data = (chunk: Buffer) => {
    if (settled) return;
    length += chunk.length;
    chunks.push(chunk);
    if (length <= max) return;
    chunks = [];
    settled = true;
    failed(tooLarge(max));
  };
  const end = () => {
    if (settled) return;
    settled = true;
    const [first] = chunks;
    if (first === undefined) done(EMPTY);
    else done(chunks.length === 1 ? first : Buffer.concat(chunks, length));
  };
  const broken = (cause: Error) => {
    if (settled) return;
    settled = true;
    failed(new Fault("CANCELLED", "the caller went away", { cause }));
  };
  request.on("data", data);
  request.on("end", end);
  request.on("error", broken);
}

function unsupported(header: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${header} must be ${wanted}`, { http: 415 });
}

function tooLarge(max: number): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `the body must be at most ${max} bytes`, { http: 413 });
}
