// Finds an entry of a protobuf map by the bytes of its key, without a string or an object for the others.

import { BYTES, type ByteSpan, type ProtoReader } from "./reader.ts";

/**
 * Looks in `[start, end)` for the entry of a `map<string, message>` that is field 1 of its message, as those of
 * google.protobuf.Struct and of Envoy's Metadata are, and stores the place of its value. Returns whether there is one; of
 * equal keys the last counts.
 * @throws Fault INVALID_ARGUMENT for malformed bytes
 */
export function findMapEntry(
  reader: ProtoReader,
  start: number,
  end: number,
  key: readonly number[],
  into: ByteSpan,
): boolean {
  into.clear();
  let found = false;
  reader.at = start;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field !== 1 || reader.wire !== BYTES) {
      reader.skip(field, end);
      continue;
    }
    const entryEnd = reader.sub(end);
    let isWanted = false;
    let at = entryEnd;
    let stop = entryEnd;
    while (reader.at < entryEnd) {
      const inner = reader.tag(entryEnd);
      if (reader.wire !== BYTES) {
        reader.skip(inner, entryEnd);
        continue;
      }
      const innerEnd = reader.sub(entryEnd);
      if (inner === 1) isWanted = isAt(reader.bytes, reader.at, innerEnd, key);
      else if (inner === 2) {
        at = reader.at;
        stop = innerEnd;
      }
      reader.at = innerEnd;
    }
    if (!isWanted) continue;
    found = true;
    into.start = at;
    into.end = stop;
  }
  return found;
}

function isAt(bytes: Buffer, start: number, end: number, key: readonly number[]): boolean {
  if (end - start !== key.length) return false;
  for (let at = 0; at < key.length; at++) if (bytes[start + at] !== key[at]) return false;
  return true;
}
