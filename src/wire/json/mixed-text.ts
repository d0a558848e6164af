// Decodes bytes that should be UTF-8 and are not: gateways copy header values into their JSON as they are. Each byte that is
// not part of valid UTF-8 becomes its ISO 8859-1 character, so that different values stay different. With replacement
// characters, all of them would share one label, and one limit.

/** Text of the bytes, in which valid sequences of UTF-8 keep their meaning. */
export function mixedText(bytes: Buffer): string {
  // An invalid byte becomes a character of two bytes.
  const out = Buffer.allocUnsafe(bytes.length * 2);
  let to = 0;
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes, at);
    if (length === 0) {
      const byte = bytes[at++] ?? 0;
      out[to++] = 0xc0 | (byte >> 6);
      out[to++] = 0x80 | (byte & 0x3f);
    }
    for (const end = at + length; at < end; at++) out[to++] = bytes[at] ?? 0;
  }
  return out.toString("utf8", 0, to);
}

/** Bytes of the sequence at that offset (Unicode 16, table 3-7), or 0 if none is valid. */
function sequenceLength(bytes: Buffer, at: number): number {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  const second = bytes[at + 1] ?? 0;
  if (second < least || second > most) return 0;
  for (let next = 2; next < length; next++) {
    const byte = bytes[at + next] ?? 0;
    if (byte < 0x80 || byte > 0xbf) return 0;
  }
  return length;
}
