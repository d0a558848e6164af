// Reads an HTTP/1.1 request as nearly every caller of a JSON route sends it: a POST that came whole and by
// itself, in which nothing needs interpretation. Whatever is otherwise, right or wrong, is for Node's parser: a
// request is read here only where RFC 9112 leaves one meaning, so that the two can never disagree on a boundary.

import { hostLike } from "../h2/head.ts";

/** Longer heads are rare, and Node's business. */
const LONGEST_HEAD = 4_096;
/** A body is in one chunk with its head, so it is shorter than what is read at once (64 KiB). */
const MOST_DIGITS = 5;
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

/** Fields that say how messages are framed or connections go on (RFC 9110 §7.6.1), or that ask for more than a reply. */
const OTHERWISE: ReadonlySet<string> = new Set([
  ...["transfer-encoding", "te", "trailer", "upgrade", "expect", "http2-settings"],
  ...["keep-alive", "proxy-connection"],
]);

export interface PlainRequest {
  /** Path and query. */
  readonly target: string;
  /** By names in lower case, of which none came twice. */
  readonly headers: Readonly<Record<string, string>>;
  /** What was read; the body is its end. */
  readonly chunk: Buffer;
  readonly bodyStart: number;
}

/** Undefined where the chunk is anything but one plain request, with a head of at most so many bytes. */
export function readPlain(chunk: Buffer, most: number): PlainRequest | undefined {
  if (!says(chunk, 0, BEGIN)) return undefined;
  const longest = Math.min(chunk.length, LONGEST_HEAD, most);
  let at = visibleEnd(chunk, SLASH, longest);
  const target = chunk.toString("latin1", SLASH, at);
  if (!says(chunk, at, VERSION)) return undefined;
  at += VERSION.length;
  // Without a prototype: a field may bear the name of one of its members.
  const headers: Record<string, string> = Object.create(null);
  while (chunk[at] !== CARRIAGE_RETURN) {
    const colon = nameEnd(chunk, at, longest);
    if (colon === at || chunk[colon] !== COLON) return undefined;
    const name = chunk.toString("latin1", at, colon).toLowerCase();
    const start = afterBlanks(chunk, colon + 1);
    const end = textEnd(chunk, start, longest);
    if (chunk[end] !== CARRIAGE_RETURN || chunk[end + 1] !== LINE_FEED) return undefined;
    const value = chunk.toString("latin1", start, beforeBlanks(chunk, start, end));
    if (name in headers || !isPlain(name, value)) return undefined;
    headers[name] = value;
    at = end + 2;
  }
  const bodyStart = at + 2;
  if (chunk[at + 1] !== LINE_FEED || bodyStart > longest) return undefined;
  const { [CONTENT_LENGTH]: length, host } = headers;
  if (length === undefined || !(bodyStart + Number(length) === chunk.length)) return undefined;
  return host === undefined || !hostLike(host) ? undefined : { target, headers, chunk, bodyStart };
}

function says(chunk: Buffer, from: number, expected: string): boolean {
  for (let at = 0; at < expected.length; at++) {
    if (chunk[from + at] !== expected.charCodeAt(at)) return false;
  }
  return true;
}

function isPlain(name: string, value: string): boolean {
  if (name === CONTENT_LENGTH) return isLength(value);
  if (name === "connection") return value.toLowerCase() === "keep-alive";
  return !OTHERWISE.has(name);
}

function isLength(value: string): boolean {
  if (value.length === 0 || value.length > MOST_DIGITS) return false;
  for (let at = 0; at < value.length; at++) if (!isDigit(value.charCodeAt(at))) return false;
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Letters of either case, digits and the hyphen. Other names are good, and rare. */
function isOfName(byte: number): boolean {
  const letter = byte | 0x20;
  return (letter >= 0x61 && letter <= 0x7a) || isDigit(byte) || byte === HYPHEN;
}

function visibleEnd(chunk: Buffer, from: number, most: number): number {
  let at = from;
  for (; at < most; at++) {
    const byte = chunk[at] ?? 0;
    if (byte <= SPACE || byte > LAST_VISIBLE) break;
  }
  return at;
}

function nameEnd(chunk: Buffer, from: number, most: number): number {
  let at = from;
  while (at < most && isOfName(chunk[at] ?? 0)) at++;
  return at;
}

/** Of printable ASCII, blanks among it. */
function textEnd(chunk: Buffer, from: number, most: number): number {
  let at = from;
  for (; at < most; at++) {
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
