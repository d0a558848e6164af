// Map entries whose values are copied straight from the bytes of a request. Only values that are not ASCII become
// strings.

import { cutText, MAX_SHOWN_BYTES } from "#base/text/cut.ts";
import { ByteSpan } from "../protobuf/reader.ts";
import { ProtoWriter } from "../protobuf/writer.ts";
import { TELEMETRY_ENTRY } from "./response.ts";

/** An entry's encoded key, and values that are replaced by another text. */
export interface SpanKey {
  readonly name: string;
  readonly key: Uint8Array;
  readonly replacements: readonly Replacement[];
}

/** An entry with the span of its value. */
export interface SpanField {
  readonly entry: SpanKey;
  readonly span: ByteSpan;
}

interface Replacement {
  readonly value: Uint8Array;
  readonly replacement: Buffer;
  /** All of `replacement`. */
  readonly whole: ByteSpan;
}

/** `replacements` maps values of the request to values of the entry. */
export function spanKey(
  name: string,
  replacements: Readonly<Record<string, string>> = {},
): SpanKey {
  const out = new ProtoWriter();
  out.text(0x0a, name);
  out.tag(0x12);
  return {
    name,
    key: out.copy(),
    replacements: Object.entries(replacements).map(([value, replacement]) => ({
      value: Buffer.from(value),
      replacement: Buffer.from(replacement),
      whole: Object.assign(new ByteSpan(), { start: 0, end: Buffer.byteLength(replacement) }),
    })),
  };
}

export function writeSpanField(out: ProtoWriter, field: SpanField, bytes: Buffer): void {
  const { entry, span } = field;
  const { key } = entry;
  for (const { value, replacement, whole } of entry.replacements) {
    if (!equals(value, bytes, span)) continue;
    out.asciiPair(TELEMETRY_ENTRY, key, replacement, whole);
    return;
  }
  const isShort = span.end - span.start <= MAX_SHOWN_BYTES;
  if (isShort && out.asciiPair(TELEMETRY_ENTRY, key, bytes, span)) return;
  const start = out.open(TELEMETRY_ENTRY);
  out.text(0x0a, entry.name);
  out.text(0x12, cutText(span.text(bytes)));
  out.close(start);
}

function equals(value: Uint8Array, bytes: Buffer, { start, end }: ByteSpan): boolean {
  if (value.length !== end - start) return false;
  for (let at = 0; at < value.length; at++) if (value[at] !== bytes[start + at]) return false;
  return true;
}
