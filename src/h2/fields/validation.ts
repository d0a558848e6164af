// Validates decoded field blocks by RFC 9113 §8: an accepted block describes one request unambiguously and contains
// nothing that another hop could interpret differently (request smuggling).

import { isHost } from "#base/http/host.ts";
import type { RequestHead } from "../exchange.ts";
import type { FieldList } from "../hpack/field-list.ts";

/** Long names and values that were validated before in the same block. */
interface CheckedTexts {
  readonly names: Set<string>;
  readonly values: Set<string>;
}

/** The fields of a request that were found so far. */
interface ParsedFields {
  method: string | undefined;
  path: string | undefined;
  scheme: string | undefined;
  authority: string | undefined;
  host: string | undefined;
  contentLength: number;
  checked: CheckedTexts | undefined;
}

/**
 * Longer texts are validated once per block: with references to one table entry, a few bytes can repeat the same text
 * as often as the list limits allow.
 */
const LONG_TEXT = 256;

const TOKEN = 1;
const PATH = 2;
const SCHEME = 4;
const METHOD = 8;
/** The kinds of text that each byte may be part of. Never written to after its creation. */
const ALLOWED = makeAllowed();

const COLON = 0x3a;
const SPACE = 0x20;
const TAB = 0x09;

/** The most digits that are exact as a number. */
const MAX_DIGITS = 15;

/**
 * Returns the head of a request, marked if it is malformed (§8.1.1), or undefined if its method or path is invalid.
 * CONNECT counts as malformed, as this server is not a proxy. If the list overflowed, missing pseudo-headers are "",
 * since they may have been cut off; the request must be refused as too large.
 */
export function readRequestHead(list: FieldList): RequestHead | undefined {
  const { fields, overflow, size } = list;
  const found: ParsedFields = {
    method: undefined,
    path: undefined,
    scheme: undefined,
    authority: undefined,
    host: undefined,
    contentLength: -1,
    checked: undefined,
  };
  let at = 0;
  let good = true;
  for (; at < fields.length; at += 2) {
    const name = fields[at] ?? "";
    if (name.charCodeAt(0) !== COLON) break;
    if (takePseudoHeader(name, fields[at + 1] ?? "", found)) continue;
    if (name !== ":authority") return undefined;
    good = false;
  }
  const unknown = overflow ? "" : undefined;
  const { method = unknown, path = unknown, scheme = unknown } = found;
  if (method === undefined || path === undefined || scheme === undefined) return undefined;
  if (path === "*" && method !== "OPTIONS") return undefined;
  const others = fields.slice(at);
  good = takeFields(others, found) && good;
  const { authority, host, contentLength } = found;
  const head: RequestHead = {
    method,
    path,
    scheme,
    authority: authority ?? host ?? "",
    fields: others,
    size,
    flaw: overflow ? "too_large" : undefined,
    contentLength,
    memo: undefined,
  };
  const twoHosts =
    authority !== undefined && host !== undefined && !sameHost(authority, host, scheme);
  return good && !twoHosts ? head : malformed(head);
}

/** The head without its unused parts. */
export function malformed(head: RequestHead): RequestHead {
  return { ...head, fields: [], flaw: "malformed", contentLength: -1 };
}

function takeFields(fields: readonly string[], found: ParsedFields): boolean {
  for (let at = 0; at < fields.length; at += 2) {
    if (!takeField(fields[at] ?? "", fields[at + 1] ?? "", found)) return false;
  }
  return true;
}

/** True if trailers are well-formed; they must not contain pseudo-headers. */
export function areTrailersValid({ fields }: FieldList): boolean {
  const found = { host: undefined, contentLength: -1, checked: undefined };
  for (let at = 0; at < fields.length; at += 2) {
    if (!takeField(fields[at] ?? "", fields[at + 1] ?? "", found)) return false;
  }
  return true;
}

/** Takes a pseudo-header (§8.3.1). Returns false if it is unknown, repeated or has an invalid value. */
function takePseudoHeader(name: string, value: string, found: ParsedFields): boolean {
  switch (name) {
    case ":method":
      if (found.method !== undefined || !consistsOf(value, METHOD) || value === "CONNECT")
        return false;
      found.method = value;
      return true;
    case ":path":
      if (found.path !== undefined || !isPath(value)) return false;
      found.path = value;
      return true;
    case ":scheme":
      if (found.scheme !== undefined || !consistsOf(value, SCHEME)) return false;
      found.scheme = value;
      return true;
    case ":authority":
      // The authority must not contain user information.
      if (found.authority !== undefined || !isHost(value)) return false;
      found.authority = value;
      return true;
    default:
      return false;
  }
}

/** Takes a field that is not a pseudo-header (§8.2). Returns false if it makes the request malformed. */
function takeField(
  name: string,
  value: string,
  found: Pick<ParsedFields, "host" | "contentLength" | "checked">,
): boolean {
  if (name.length + value.length < LONG_TEXT) {
    if (!consistsOf(name, TOKEN) || !isFieldValue(value)) return false;
  } else if (!isLongFieldValid(name, value, found)) return false;
  // Switching on the length first spares nearly all fields a comparison.
  switch (name.length) {
    case 2:
      return name !== "te" || (value.length === 8 && value.toLowerCase() === "trailers");
    case 4:
      if (name !== "host") return true;
      if (found.host !== undefined || !isHost(value)) return false;
      found.host = value;
      return true;
    case 7:
      return name !== "upgrade";
    case 10:
      return name !== "connection" && name !== "keep-alive";
    case 14:
      if (name !== "content-length") return true;
      if (found.contentLength !== -1) return false;
      found.contentLength = parseLength(value);
      return found.contentLength !== -1;
    case 16:
      return name !== "proxy-connection";
    case 17:
      return name !== "transfer-encoding";
    default:
      return true;
  }
}

/** True if the text is not empty and all of its characters are of that kind. */
function consistsOf(text: string, kind: number): boolean {
  for (let i = 0; i < text.length; i++) {
    if (((ALLOWED[text.charCodeAt(i)] ?? 0) & kind) === 0) return false;
  }
  return text !== "";
}

function isPath(text: string): boolean {
  return text === "*" || (text.charCodeAt(0) === 0x2f && consistsOf(text, PATH));
}

function isLongFieldValid(
  name: string,
  value: string,
  found: Pick<ParsedFields, "checked">,
): boolean {
  found.checked ??= { names: new Set(), values: new Set() };
  const { names, values } = found.checked;
  if (!names.has(name) && !consistsOf(name, TOKEN)) return false;
  if (!values.has(value) && !isFieldValue(value)) return false;
  names.add(name);
  values.add(value);
  return true;
}

/** True if a value has no NUL, CR or LF and no blank at either end (§8.2.1). */
function isFieldValue(text: string): boolean {
  if (text === "") return true;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x0d && (code === 0 || code === 0x0a || code === 0x0d)) return false;
  }
  const first = text.charCodeAt(0);
  const last = text.charCodeAt(text.length - 1);
  return first !== SPACE && first !== TAB && last !== SPACE && last !== TAB;
}

/** A decimal number, or -1. */
function parseLength(text: string): number {
  if (text === "" || text.length > MAX_DIGITS) return -1;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** True if two hosts are equal, regardless of case and the scheme's default port (RFC 3986 §6.2.3). */
function sameHost(a: string, b: string, scheme: string): boolean {
  return a === b || normalizedHost(a, scheme) === normalizedHost(b, scheme);
}

function normalizedHost(text: string, scheme: string): string {
  const port = scheme === "https" ? ":443" : ":80";
  const lower = text.toLowerCase();
  return lower.endsWith(port) ? lower.slice(0, -port.length) : lower;
}

function makeAllowed(): Uint8Array {
  const allowed = new Uint8Array(256);
  // Paths may contain anything but blanks and control characters: callers are less strict than RFC 3986.
  for (let code = 0x21; code < 256; code++) if (code !== 0x7f) allowed[code] = PATH;
  const add = (characters: string, kind: number) => {
    for (let i = 0; i < characters.length; i++) {
      const code = characters.charCodeAt(i);
      allowed[code] = (allowed[code] ?? 0) | kind;
    }
  };
  const lower = "abcdefghijklmnopqrstuvwxyz";
  const upper = lower.toUpperCase();
  const digit = "0123456789";
  // RFC 9110 §5.1 requires a token as a name, which excludes all that RFC 9113 §8.2.1 forbids except upper case.
  const token = `!#$%&'*+-.^_\`|~${digit}${lower}`;
  add(token, TOKEN);
  add(token + upper, METHOD);
  add(`+-.${digit}${lower}${upper}`, SCHEME);
  return allowed;
}
