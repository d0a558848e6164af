// The baggage header that an accepted request gets: its own members and the labels that classifiers made, so that the
// services behind the proxy see these too.

import { Baggage, isMemberName, MAX_BAGGAGE_BYTES, MAX_MEMBER, MAX_MEMBERS } from "./baggage.ts";

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
 * sent (name not a token, value not text, too large) is left out, and so are malformed members. Undefined when no label is
 * added.
 */
export function injectBaggage(
  header: string | undefined,
  made: readonly { readonly name: string; readonly value: string }[],
  maxBytes = MAX_BAGGAGE_BYTES,
): string | undefined {
  const added = new Map<string, string>();
  for (const { name, value } of made) {
    const encoded = isMemberName(name) ? encode(value) : undefined;
    if (encoded === undefined) continue;
    const member = `${name}=${encoded}`;
    if (member.length <= MAX_MEMBER) added.set(name, member);
  }
  if (added.size === 0) return undefined;
  const old = header === undefined || header.length > maxBytes ? "" : header;
  const baggage = new Baggage(old, () => undefined);
  const kept: string[] = [];
  while (baggage.next()) if (!added.has(baggage.key)) kept.push(baggage.text);
  let merged = kept.reverse().join(",");
  let count = kept.length;
  let grown = false;
  for (const member of added.values()) {
    const next = merged === "" ? member : `${merged},${member}`;
    if (next.length > maxBytes || count >= MAX_MEMBERS) continue;
    merged = next;
    count += 1;
    grown = true;
  }
  return grown ? merged : undefined;
}
