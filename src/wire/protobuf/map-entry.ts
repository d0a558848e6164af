// Entries of protobuf maps, read in place: a map is a repeated message with a key (field 1) and a value (field 2). Of equal
// keys the last counts.

import { BYTES, ByteSpan, type ProtoReader } from "./reader.ts";

/** The places of a key and its value; empty where they are absent. */
export class MapEntry {
  readonly key = new ByteSpan();
  readonly value = new ByteSpan();
}

/**
 * Reads on to the next entry of a `map<string, message>` that is field 1 of its message, as those of google.protobuf.Struct
 * and of Envoy's Metadata are. The reader then stands behind it. False at the end of the message.
 * @throws Fault INVALID_ARGUMENT for malformed bytes
 */
export function nextMapEntry(reader: ProtoReader, end: number, into: MapEntry): boolean {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field !== 1 || reader.wire !== BYTES) {
      reader.skip(field, end);
      continue;
    }
    const entryEnd = reader.sub(end);
    into.key.clear();
    into.value.clear();
    while (reader.at < entryEnd) {
      const inner = reader.tag(entryEnd);
      if (inner === 1 && reader.wire === BYTES) reader.span(entryEnd, into.key);
      else if (inner === 2 && reader.wire === BYTES) reader.span(entryEnd, into.value);
      else reader.skip(inner, entryEnd);
    }
    return true;
  }
  return false;
}

/**
 * Finds the entry of such a map in `[start, end)` by the bytes of its key, and stores the place of its value. `entry` is
 * reused for all entries.
 */
export function findMapEntry(
  reader: ProtoReader,
  start: number,
  end: number,
  key: readonly number[],
  into: ByteSpan,
  entry: MapEntry,
): boolean {
  let found = false;
  into.clear();
  reader.at = start;
  while (nextMapEntry(reader, end, entry)) {
    if (!isAt(reader.bytes, entry.key, key)) continue;
    found = true;
    into.start = entry.value.start;
    into.end = entry.value.end;
  }
  return found;
}

function isAt(bytes: Buffer, { start, end }: ByteSpan, key: readonly number[]): boolean {
  if (end - start !== key.length) return false;
  for (let at = 0; at < key.length; at++) if (bytes[start + at] !== key[at]) return false;
  return true;
}

/** Reads the rest of an entry of a `map<string, string>`, and adds it; key and value are "" where they are absent. */
export function readTextEntry(
  reader: ProtoReader,
  end: number,
  into: { add(key: string, value: string): void },
): void {
  let key = "";
  let value = "";
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) key = reader.text(end);
    else if (field === 2 && reader.wire === BYTES) value = reader.text(end);
    else reader.skip(field, end);
  }
  into.add(key, value);
}
