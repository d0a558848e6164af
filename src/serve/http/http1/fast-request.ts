// Parses the HTTP/1.1 requests that nearly every caller of a JSON route sends: a POST that arrives in one piece and
// alone. Everything else, valid or not, is left to Node's parser. A request is parsed here only if RFC 9112 allows one
// meaning, so that the two parsers never disagree on where it ends. Strings are created on demand: making them of all
// names and values costs more than the rest of the parser.

import { isHost } from "#base/http/host.ts";

/** Longer header sections are rare and left to Node. */
const MAX_HEAD = 4_096;
/** The same for more fields: each name is compared with all before it. */
const MAX_FIELDS = 64;
/** The body shares a chunk of at most 64 KiB with its header section. */
const MAX_LENGTH_DIGITS = 5;
const BEGIN = "POST /";
const VERSION = " HTTP/1.1\r\n";

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;
const TAB = 0x09;
const SPACE = 0x20;
const HYPHEN = 0x2d;
const COLON = 0x3a;
const ZERO = 0x30;
const NINE = 0x39;
const LAST_VISIBLE = 0x7e;
/** The bit in which upper and lower case of ASCII letters differ. Set in digits and the hyphen. */
const LOWER = 0x20;
const SLASH = BEGIN.length - 1;

type Role = "length" | "host" | "connection" | "timeout" | "unsupported";

/** The fields that are interpreted, by the hash of their name. */
const KNOWN_FIELDS: ReadonlyMap<number, { readonly name: string; readonly role: Role }> = new Map(
  (
    [
      ["content-length", "length"],
      ["host", "host"],
      ["connection", "connection"],
      ["grpc-timeout", "timeout"],
      // These affect message framing or the connection (RFC 9110 §7.6.1), or ask for more than a reply.
      ["transfer-encoding", "unsupported"],
      ["te", "unsupported"],
      ["trailer", "unsupported"],
      ["upgrade", "unsupported"],
      ["expect", "unsupported"],
      ["http2-settings", "unsupported"],
      ["keep-alive", "unsupported"],
      ["proxy-connection", "unsupported"],
    ] as const
  ).map(([name, role]) => [nameHash(Buffer.from(name), 0, name.length), { name, role }]),
);

export class FastRequest {
  /** Path and query. */
  readonly target: string;
  /** The header `grpc-timeout`. */
  readonly timeout: string | undefined;
  /** The bytes that were read; the body is at their end. */
  readonly chunk: Buffer;
  readonly bodyStart: number;
  /** Offset of the first field. */
  readonly #fields: number;
  #headers: Readonly<Record<string, string>> | undefined;

  constructor(
    target: string,
    timeout: string | undefined,
    chunk: Buffer,
    fields: number,
    bodyStart: number,
  ) {
    this.target = target;
    this.timeout = timeout;
    this.chunk = chunk;
    this.bodyStart = bodyStart;
    this.#fields = fields;
  }

  /** By name in lower case. No name is repeated. */
  get headers(): Readonly<Record<string, string>> {
    this.#headers ??= this.#readHeaders();
    return this.#headers;
  }

  #readHeaders(): Readonly<Record<string, string>> {
    const { chunk } = this;
    // Without a prototype: a field may have the name of one of its members.
    const headers: Record<string, string> = Object.create(null);
    const last = this.bodyStart - 2;
    for (let at = this.#fields; at < last; ) {
      const colon = chunk.indexOf(COLON, at);
      const end = chunk.indexOf(CARRIAGE_RETURN, colon);
      headers[chunk.toString("latin1", at, colon).toLowerCase()] = fieldValue(chunk, colon, end);
      at = end + 2;
    }
    return headers;
  }
}

export class FastRequestReader {
  readonly #maxHeadBytes: number;
  readonly #maxFields: number;
  /** Hashes of the names of the fields so far. */
  readonly #names = new Int32Array(MAX_FIELDS);
  /** The last target and the last valid host. Most requests repeat them. */
  #target = "";
  #host = "";

  constructor(maxHeadBytes: number, maxFields: number) {
    this.#maxHeadBytes = Math.min(maxHeadBytes, MAX_HEAD);
    this.#maxFields = Math.min(maxFields, MAX_FIELDS);
  }

  /** Returns undefined unless the chunk is exactly one simple request. */
  read(chunk: Buffer): FastRequest | undefined {
    if (!isText(chunk, 0, BEGIN)) return undefined;
    const limit = Math.min(chunk.length, this.#maxHeadBytes);
    let at = visibleEnd(chunk, SLASH, limit);
    const target = repeatedText(chunk, SLASH, at, this.#target);
    this.#target = target;
    if (!isText(chunk, at, VERSION)) return undefined;
    at += VERSION.length;
    const first = at;
    let length = -1;
    let hasHost = false;
    let timeout: string | undefined;
    for (let fields = 0; chunk[at] !== CARRIAGE_RETURN; fields++) {
      if (fields === this.#maxFields) return undefined;
      const colon = nameEnd(chunk, at, limit);
      if (colon === at || chunk[colon] !== COLON) return undefined;
      const end = textEnd(chunk, colon + 1, limit);
      if (chunk[end] !== CARRIAGE_RETURN || chunk[end + 1] !== LINE_FEED) return undefined;
      const hash = nameHash(chunk, at, colon);
      if (!this.#addName(hash, fields)) return undefined;
      const known = KNOWN_FIELDS.get(hash);
      if (known !== undefined) {
        if (!isName(chunk, at, colon, known.name)) return undefined;
        if (known.role === "length") {
          length = readLength(chunk, colon, end);
          if (length < 0) return undefined;
        } else if (known.role === "host") {
          if (!this.#isHost(chunk, colon, end)) return undefined;
          hasHost = true;
        } else if (known.role === "timeout") timeout = fieldValue(chunk, colon, end);
        else if (known.role === "unsupported" || !keepsAlive(chunk, colon, end)) return undefined;
      }
      at = end + 2;
    }
    const bodyStart = at + 2;
    if (chunk[at + 1] !== LINE_FEED || bodyStart > limit) return undefined;
    if (!hasHost || length < 0 || bodyStart + length !== chunk.length) return undefined;
    return new FastRequest(target, timeout, chunk, first, bodyStart);
  }

  /** False for a repeated name, or one with the same hash as another. */
  #addName(hash: number, count: number): boolean {
    const names = this.#names;
    for (let at = 0; at < count; at++) if (names[at] === hash) return false;
    names[count] = hash;
    return true;
  }

  #isHost(chunk: Buffer, colon: number, end: number): boolean {
    const start = afterBlanks(chunk, colon + 1);
    const host = repeatedText(chunk, start, beforeBlanks(chunk, start, end), this.#host);
    if (host === this.#host) return true;
    if (!isHost(host)) return false;
    this.#host = host;
    return true;
  }
}

/** Avoids a new string if the text is still `last`. */
function repeatedText(chunk: Buffer, start: number, end: number, last: string): string {
  if (end - start === last.length && isText(chunk, start, last)) return last;
  return chunk.toString("latin1", start, end);
}

function isText(chunk: Buffer, from: number, expected: string): boolean {
  for (let at = 0; at < expected.length; at++) {
    if (chunk[from + at] !== expected.charCodeAt(at)) return false;
  }
  return true;
}

/** Two names that differ only in case have the same hash; others may. */
function nameHash(chunk: Buffer, start: number, end: number): number {
  let hash = end - start;
  for (let at = start; at < end; at++)
    hash = Math.imul(hash ^ ((chunk[at] ?? 0) | LOWER), 0x01000193);
  return hash;
}

function isName(chunk: Buffer, start: number, end: number, expected: string): boolean {
  if (end - start !== expected.length) return false;
  for (let at = 0; at < expected.length; at++) {
    if (((chunk[start + at] ?? 0) | LOWER) !== expected.charCodeAt(at)) return false;
  }
  return true;
}

/** The value between the colon and the end of its line. */
function fieldValue(chunk: Buffer, colon: number, end: number): string {
  const start = afterBlanks(chunk, colon + 1);
  return chunk.toString("latin1", start, beforeBlanks(chunk, start, end));
}

function keepsAlive(chunk: Buffer, colon: number, end: number): boolean {
  return fieldValue(chunk, colon, end).toLowerCase() === "keep-alive";
}

/** A length in its usual form; -1 for any other. */
function readLength(chunk: Buffer, colon: number, end: number): number {
  const start = afterBlanks(chunk, colon + 1);
  const last = beforeBlanks(chunk, start, end);
  if (last === start || last - start > MAX_LENGTH_DIGITS) return -1;
  let length = 0;
  for (let at = start; at < last; at++) {
    const byte = chunk[at] ?? 0;
    if (!isDigit(byte)) return -1;
    length = length * 10 + byte - ZERO;
  }
  return length;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

/** Letters, digits and the hyphen. Other names are valid but rare. */
function isOfName(byte: number): boolean {
  const letter = byte | LOWER;
  return (letter >= 0x61 && letter <= 0x7a) || isDigit(byte) || byte === HYPHEN;
}

function visibleEnd(chunk: Buffer, from: number, limit: number): number {
  let at = from;
  for (; at < limit; at++) {
    const byte = chunk[at] ?? 0;
    if (byte <= SPACE || byte > LAST_VISIBLE) break;
  }
  return at;
}

function nameEnd(chunk: Buffer, from: number, limit: number): number {
  let at = from;
  while (at < limit && isOfName(chunk[at] ?? 0)) at++;
  return at;
}

/** End of printable ASCII, including blanks. */
function textEnd(chunk: Buffer, from: number, limit: number): number {
  let at = from;
  for (; at < limit; at++) {
    const byte = chunk[at] ?? 0;
    if ((byte < SPACE && byte !== TAB) || byte > LAST_VISIBLE) break;
  }
  return at;
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB;
}

function afterBlanks(chunk: Buffer, from: number): number {
  let at = from;
  while (isBlank(chunk[at])) at++;
  return at;
}

function beforeBlanks(chunk: Buffer, start: number, from: number): number {
  let at = from;
  while (at > start && isBlank(chunk[at - 1])) at--;
  return at;
}
