// Parses an HTTP/1.1 request in the form that nearly every caller of a JSON route sends: a POST that arrives in one
// piece and alone, and needs no interpretation. Anything else, valid or not, is left to Node's parser. A request is
// only parsed here if RFC 9112 leaves one meaning, so that both parsers can never disagree on where it ends.

import { isHost } from "../../transport/host.ts";

/** Longer header sections are rare and left to Node. */
const MAX_HEAD = 4_096;
/** A body shares one chunk with its header section, so it is shorter than what is read at once (64 KiB). */
const MAX_LENGTH_DIGITS = 5;
const BEGIN = "POST /";
const VERSION = " HTTP/1.1\r\n";
const CONTENT_LENGTH = "content-length";

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;
const TAB = 0x09;
const SPACE = 0x20;
const HYPHEN = 0x2d;
const COLON = 0x3a;
const LAST_VISIBLE = 0x7e;
const SLASH = BEGIN.length - 1;

/** Fields that affect message framing or the connection (RFC 9110 §7.6.1), or that ask for more than a reply. */
const UNSUPPORTED_FIELDS: ReadonlySet<string> = new Set([
  "transfer-encoding",
  "te",
  "trailer",
  "upgrade",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
]);

export interface FastRequest {
  /** Path and query. */
  readonly target: string;
  /** By names in lower case, none of which was repeated. */
  readonly headers: Readonly<Record<string, string>>;
  /** The bytes that were read; the body is at their end. */
  readonly chunk: Buffer;
  readonly bodyStart: number;
}

/** Returns undefined unless the chunk is exactly one simple request whose header section has so few bytes and fields. */
export function readFastRequest(
  chunk: Buffer,
  maxHeadBytes: number,
  maxFields: number,
): FastRequest | undefined {
  if (!startsWith(chunk, 0, BEGIN)) return undefined;
  const limit = Math.min(chunk.length, MAX_HEAD, maxHeadBytes);
  let at = visibleEnd(chunk, SLASH, limit);
  const target = chunk.toString("latin1", SLASH, at);
  if (!startsWith(chunk, at, VERSION)) return undefined;
  at += VERSION.length;
  // Without a prototype: a field may have the name of one of its members.
  const headers: Record<string, string> = Object.create(null);
  let fields = 0;
  while (chunk[at] !== CARRIAGE_RETURN) {
    if (++fields > maxFields) return undefined;
    const colon = nameEnd(chunk, at, limit);
    if (colon === at || chunk[colon] !== COLON) return undefined;
    const name = chunk.toString("latin1", at, colon).toLowerCase();
    const start = afterBlanks(chunk, colon + 1);
    const end = textEnd(chunk, start, limit);
    if (chunk[end] !== CARRIAGE_RETURN || chunk[end + 1] !== LINE_FEED) return undefined;
    const value = chunk.toString("latin1", start, beforeBlanks(chunk, start, end));
    if (name in headers || !isPlain(name, value)) return undefined;
    headers[name] = value;
    at = end + 2;
  }
  const bodyStart = at + 2;
  if (chunk[at + 1] !== LINE_FEED || bodyStart > limit) return undefined;
  const { [CONTENT_LENGTH]: length, host } = headers;
  if (length === undefined || !(bodyStart + Number(length) === chunk.length)) return undefined;
  return host === undefined || !isHost(host) ? undefined : { target, headers, chunk, bodyStart };
}

function startsWith(chunk: Buffer, from: number, expected: string): boolean {
  for (let at = 0; at < expected.length; at++) {
    if (chunk[from + at] !== expected.charCodeAt(at)) return false;
  }
  return true;
}

function isPlain(name: string, value: string): boolean {
  if (name === CONTENT_LENGTH) return isLength(value);
  if (name === "connection") return value.toLowerCase() === "keep-alive";
  return !UNSUPPORTED_FIELDS.has(name);
}

function isLength(value: string): boolean {
  if (value.length === 0 || value.length > MAX_LENGTH_DIGITS) return false;
  for (let at = 0; at < value.length; at++) if (!isDigit(value.charCodeAt(at))) return false;
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Letters, digits and the hyphen. Other names are valid but rare. */
function isOfName(byte: number): boolean {
  const letter = byte | 0x20;
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
