// W3C baggage: labels that travel with requests in a header. Reads the header of a request, and writes a new one with
// the labels of classifiers, so that downstream services see them too.

import { isReserved } from "#flow/label.ts";

/** Limits of the W3C specification, which other implementations enforce. The first one is only the default. */
export const MAX_BAGGAGE_BYTES = 8_192;
const MAX_MEMBER = 4_096;
const MAX_MEMBERS = 180;

export interface BaggageIn {
  readonly labels: ReadonlyMap<string, string>;
  /** Number of members named `http.*` or `aperture.*`, which callers may not set. */
  readonly reserved: number;
}

interface Member {
  readonly key: string;
  /** Percent-decoded once; `+` stays a plus. */
  readonly value: string;
  /** As received, with properties, without surrounding white space. */
  readonly text: string;
}

const KEY = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const OCTETS = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;
const BAD_ESCAPE = /%(?![0-9A-Fa-f]{2})/;

/** The members of a header; undefined when any part is malformed or exceeds the limits. */
function parse(header: string, most: number): readonly Member[] | undefined {
  // The length in UTF-16 units is the length in bytes, because anything beyond ASCII is malformed.
  if (header.length > most) return undefined;
  const members: Member[] = [];
  const keys = new Set<string>();
  for (const part of header.split(",")) {
    const member = part.length > MAX_MEMBER ? undefined : parseMember(part);
    if (member === undefined) return undefined;
    members.push(member);
    keys.add(member.key);
    if (keys.size > MAX_MEMBERS) return undefined;
  }
  return members;
}

function parseMember(part: string): Member | undefined {
  const [pair = "", ...properties] = part.split(";");
  const equals = pair.indexOf("=");
  if (equals < 0) return undefined;
  const key = trim(pair.slice(0, equals));
  const value = decode(trim(pair.slice(equals + 1)));
  if (!KEY.test(key) || value === undefined || !properties.every(isProperty)) return undefined;
  return { key, value, text: trim(part) };
}

/** `key` or `key=value`. An empty property is accepted, as by other implementations. */
function isProperty(part: string): boolean {
  const text = trim(part);
  if (text === "") return true;
  const equals = text.indexOf("=");
  if (equals < 0) return KEY.test(text);
  return KEY.test(trim(text.slice(0, equals))) && OCTETS.test(trim(text.slice(equals + 1)));
}

/** Removes the white space that HTTP allows (space and tab); other white space is malformed. */
function trim(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(unit: number): boolean {
  return unit === 0x20 || unit === 0x09;
}

/** Percent-decodes once; undefined when the value is not made of baggage-octets. Invalid UTF-8 becomes U+FFFD. */
function decode(value: string): string | undefined {
  if (!OCTETS.test(value) || BAD_ESCAPE.test(value)) return undefined;
  if (!value.includes("%")) return value;
  const bytes = value.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** The labels in a header; undefined when it is malformed or exceeds the limits, so that none of them count. */
export function extractBaggage(header: string, most = MAX_BAGGAGE_BYTES): BaggageIn | undefined {
  const labels = new Map<string, string>();
  if (trim(header) === "") return { labels, reserved: 0 };
  const members = parse(header, most);
  if (members === undefined) return undefined;
  let reserved = 0;
  for (const { key, value } of members) {
    if (isReserved(key)) reserved += 1;
    else labels.set(key, value);
  }
  return { labels, reserved };
}

/** Characters that must be percent-encoded in a value. `%` is one of them, so a value round-trips. */
const ESCAPED = /[^\x21\x23\x24\x26-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]/gu;

/** Percent-encodes a value; undefined when it is not valid text (has a lone surrogate or U+FFFD). */
function encode(value: string): string | undefined {
  if (!value.isWellFormed() || value.includes("\ufffd")) return undefined;
  return value.replace(ESCAPED, (char) => {
    let escaped = "";
    for (const byte of Buffer.from(char)) {
      escaped += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
    }
    return escaped;
  });
}

/**
 * The new value of the header: its members, except those that `made` replaces, and then `made`. A label that cannot be
 * sent (name not a token, value not text, too large) is left out. A malformed header is dropped. Undefined when no label
 * is added.
 */
export function injectBaggage(
  header: string | undefined,
  made: readonly { readonly name: string; readonly value: string }[],
  most = MAX_BAGGAGE_BYTES,
): string | undefined {
  const added = new Map<string, string>();
  for (const { name, value } of made) {
    const encoded = KEY.test(name) ? encode(value) : undefined;
    if (encoded === undefined) continue;
    const member = `${name}=${encoded}`;
    if (member.length <= MAX_MEMBER) added.set(name, member);
  }
  if (added.size === 0) return undefined;
  const old = header === undefined || trim(header) === "" ? [] : (parse(header, most) ?? []);
  const kept = old.filter(({ key }) => !added.has(key)).map((member) => member.text);
  let merged = kept.join(",");
  let count = kept.length;
  let grown = false;
  for (const member of added.values()) {
    const next = merged === "" ? member : `${merged},${member}`;
    if (next.length > most || count >= MAX_MEMBERS) continue;
    merged = next;
    count += 1;
    grown = true;
  }
  return grown ? merged : undefined;
}
