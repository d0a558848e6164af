// Judges a decoded header block by RFC 9113 §8: what is let through names one request without doubt and carries
// nothing that another hop could read differently (smuggling).

import type { Head } from "./exchange.ts";
import type { FieldList } from "./fields.ts";

/** Long names and values that were looked at before in the same block. */
interface Seen {
  readonly names: Set<string>;
  readonly values: Set<string>;
}

/** What is being gathered from a request's fields; undefined: has not come. */
interface Found {
  method: string | undefined;
  path: string | undefined;
  scheme: string | undefined;
  authority: string | undefined;
  host: string | undefined;
  contentLength: number;
  seen: Seen | undefined;
}

/**
 * Texts from this length on are looked at once in a block: with references to one entry of the table, a few bytes
 * bring the same text as often as the bounds on a list allow.
 */
const LONG = 256;

const TOKEN = 1;
const PATH = 2;
const SCHEME = 4;
const METHOD = 8;
/** What each byte may be part of. Never written to. */
const ALLOWED = makeAllowed();

const COLON = 0x3a;
const SPACE = 0x20;
const TAB = 0x09;

/** Digits that are still an exact number. */
const MAX_DIGITS = 15;

/**
 * The head of a request, or undefined if it is malformed (§8.1.1): the stream then ends with PROTOCOL_ERROR. CONNECT
 * counts as malformed, as nothing here is a proxy. With an overflow, what did not fit cannot be missed: absent
 * pseudo headers are "" then, and the request is to be refused as too large.
 */
export function readHead(fields: FieldList): Head | undefined {
  const { flat, overflow, size } = fields;
  const found: Found = {
    method: undefined,
    path: undefined,
    scheme: undefined,
    authority: undefined,
    host: undefined,
    contentLength: -1,
    seen: undefined,
  };
  let at = 0;
  for (; at < flat.length; at += 2) {
    const name = flat[at] ?? "";
    if (name.charCodeAt(0) !== COLON) break;
    if (!pseudo(name, flat[at + 1] ?? "", found)) return undefined;
  }
  const others = flat.slice(at);
  for (let i = 0; i < others.length; i += 2) {
    if (!ordinary(others[i] ?? "", others[i + 1] ?? "", found)) return undefined;
  }
  const unknown = overflow ? "" : undefined;
  const { method = unknown, path = unknown, scheme = unknown } = found;
  const { authority, host, contentLength } = found;
  if (method === undefined || path === undefined || scheme === undefined) return undefined;
  if (path === "*" && method !== "OPTIONS") return undefined;
  if (authority !== undefined && host !== undefined && !sameHost(authority, host, scheme)) {
    return undefined;
  }
  return {
    method,
    path,
    scheme,
    authority: authority ?? host ?? "",
    fields: others,
    size,
    overflow,
    contentLength,
    memo: undefined,
  };
}

/** Whether trailers are well-formed: they take no pseudo headers. */
export function goodTrailers({ flat }: FieldList): boolean {
  const found = { host: undefined, contentLength: -1, seen: undefined };
  for (let at = 0; at < flat.length; at += 2) {
    if (!ordinary(flat[at] ?? "", flat[at + 1] ?? "", found)) return false;
  }
  return true;
}

/** Takes a pseudo header (§8.3.1). False: unknown, repeated, or with a value that it cannot have. */
function pseudo(name: string, value: string, found: Found): boolean {
  switch (name) {
    case ":method":
      if (found.method !== undefined || !only(value, METHOD) || value === "CONNECT") return false;
      found.method = value;
      return true;
    case ":path":
      if (found.path !== undefined || !pathLike(value)) return false;
      found.path = value;
      return true;
    case ":scheme":
      if (found.scheme !== undefined || !only(value, SCHEME)) return false;
      found.scheme = value;
      return true;
    case ":authority":
      // User names and passwords do not belong here.
      if (found.authority !== undefined || !hostLike(value)) return false;
      found.authority = value;
      return true;
    default:
      return false;
  }
}

/** Looks at a field that is no pseudo header (§8.2). False: the request is malformed. */
function ordinary(
  name: string,
  value: string,
  found: Pick<Found, "host" | "contentLength" | "seen">,
): boolean {
  if (name.length + value.length < LONG) {
    if (!only(name, TOKEN) || !valueLike(value)) return false;
  } else if (!longFine(name, value, found)) return false;
  // Told apart by length first: nearly all fields need no comparison.
  switch (name.length) {
    case 2:
      return name !== "te" || (value.length === 8 && value.toLowerCase() === "trailers");
    case 4:
      if (name !== "host") return true;
      if (found.host !== undefined || !hostLike(value)) return false;
      found.host = value;
      return true;
    case 7:
      return name !== "upgrade";
    case 10:
      return name !== "connection" && name !== "keep-alive";
    case 14:
      if (name !== "content-length") return true;
      if (found.contentLength !== -1) return false;
      found.contentLength = digits(value);
      return found.contentLength !== -1;
    case 16:
      return name !== "proxy-connection";
    case 17:
      return name !== "transfer-encoding";
    default:
      return true;
  }
}

/** At least one character, and all of a kind. */
function only(text: string, kind: number): boolean {
  for (let i = 0; i < text.length; i++) {
    if (((ALLOWED[text.charCodeAt(i)] ?? 0) & kind) === 0) return false;
  }
  return text !== "";
}

function pathLike(text: string): boolean {
  return text === "*" || (text.charCodeAt(0) === 0x2f && only(text, PATH));
}

/**
 * Empty, as callers over Unix sockets may have it, or without blanks and user information. Meshes have names with
 * bars and slashes, so what else stands in it is not our business. Over HTTP/1.1 the same.
 */
export function hostLike(text: string): boolean {
  return text === "" || (only(text, PATH) && !text.includes("@"));
}

function longFine(name: string, value: string, found: Pick<Found, "seen">): boolean {
  found.seen ??= { names: new Set(), values: new Set() };
  const { names, values } = found.seen;
  if (!names.has(name) && !only(name, TOKEN)) return false;
  if (!values.has(value) && !valueLike(value)) return false;
  names.add(name);
  values.add(value);
  return true;
}

/** No NUL, CR, LF; no blank at an end (§8.2.1). */
function valueLike(text: string): boolean {
  if (text === "") return true;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x0d && (code === 0 || code === 0x0a || code === 0x0d)) return false;
  }
  const first = text.charCodeAt(0);
  const last = text.charCodeAt(text.length - 1);
  return first !== SPACE && first !== TAB && last !== SPACE && last !== TAB;
}

/** A whole number, or -1. */
function digits(text: string): number {
  if (text === "" || text.length > MAX_DIGITS) return -1;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** Equal, or equal but for case and the scheme's own port (RFC 3986 §6.2.3). */
function sameHost(a: string, b: string, scheme: string): boolean {
  return a === b || plainHost(a, scheme) === plainHost(b, scheme);
}

function plainHost(text: string, scheme: string): string {
  const port = scheme === "https" ? ":443" : ":80";
  const lower = text.toLowerCase();
  return lower.endsWith(port) ? lower.slice(0, -port.length) : lower;
}

function makeAllowed(): Uint8Array {
  const allowed = new Uint8Array(256);
  // A path is taken as it comes but for blanks and control characters, as RFC 3986 is stricter than callers are.
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
  // RFC 9110 §5.1 wants a token for a name, which leaves out all that RFC 9113 §8.2.1 forbids but upper case.
  const token = `!#$%&'*+-.^_\`|~${digit}${lower}`;
  add(token, TOKEN);
  add(token + upper, METHOD);
  add(`+-.${digit}${lower}${upper}`, SCHEME);
  return allowed;
}
