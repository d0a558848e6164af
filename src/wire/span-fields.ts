// Map entries whose values are parts of the request in hand: copied from its bytes, never made into strings
// unless they are not ASCII.

import { TELEMETRY_ENTRY } from "./check-response.ts";
import { Span } from "./proto-reader.ts";
import { ProtoWriter } from "./proto-writer.ts";

/** One entry: its key, encoded once, and where its value lies. */
export interface SpanField {
  readonly name: string;
  readonly key: Uint8Array;
  readonly span: Span;
  /** Values that are spelt otherwise in the entry. */
  readonly spellings: readonly Spelling[];
}

interface Spelling {
  readonly value: Uint8Array;
  /** The value of the entry. */
  readonly spelt: Buffer;
  readonly whole: Span;
}

export function spanField(
  name: string,
  span: Span,
  spellings: Readonly<Record<string, string>> = {},
): SpanField {
  const out = new ProtoWriter();
  out.text(0x0a, name);
  out.tag(0x12);
  return {
    name,
    key: out.copy(),
    span,
    spellings: Object.entries(spellings).map(([value, spelt]) => ({
      value: Buffer.from(value),
      spelt: Buffer.from(spelt),
      whole: Object.assign(new Span(), { start: 0, end: Buffer.byteLength(spelt) }),
    })),
  };
}

export function writeSpanField(out: ProtoWriter, field: SpanField, bytes: Buffer): void {
  const { key, span } = field;
  for (const { value, spelt, whole } of field.spellings) {
    if (!isHere(value, bytes, span)) continue;
    out.asciiPair(TELEMETRY_ENTRY, key, spelt, whole);
    return;
  }
  if (out.asciiPair(TELEMETRY_ENTRY, key, bytes, span)) return;
  const start = out.open(TELEMETRY_ENTRY);
  out.text(0x0a, field.name);
  out.text(0x12, span.text(bytes));
  out.close(start);
}

function isHere(value: Uint8Array, bytes: Buffer, { start, end }: Span): boolean {
  if (value.length !== end - start) return false;
  for (let at = 0; at < value.length; at++) if (value[at] !== bytes[start + at]) return false;
  return true;
}
