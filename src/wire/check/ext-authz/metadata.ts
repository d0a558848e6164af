// Reads values of a proxy's dynamic metadata (envoy.config.core.v3.Metadata, whose values are google.protobuf.Struct)
// in place. Only what a rule asks for is decoded.

import { MapEntry, nextMapEntry } from "../../protobuf/map-entry.ts";
import { BYTES, FIXED64, malformed, ProtoReader, VARINT } from "../../protobuf/reader.ts";

/** Maximum nesting of a value; protobuf libraries have limits of the same order. */
const MAX_DEPTH = 64;

/**
 * The value under names that are joined by dots: the namespace, then keys of Structs. Namespaces and keys may contain
 * dots, so each step takes the longest one that fits. Text is returned as it is, other values as JSON; undefined if
 * there is no such value.
 * @throws Fault INVALID_ARGUMENT for malformed bytes and values that are nested too deep
 */
export function metadataText(
  bytes: Buffer,
  start: number,
  end: number,
  names: string,
): string | undefined {
  const reader = new ProtoReader(bytes);
  let found = findEntry(reader, start, end, names);
  for (let isStruct = true; found !== undefined; isStruct = false) {
    const { at, stop, rest } = found;
    if (rest === undefined) {
      const read = isStruct ? readStruct : readValue;
      const value = read(reader, at, stop, MAX_DEPTH);
      return typeof value === "string" ? value : JSON.stringify(value);
    }
    const struct = isStruct ? found : structIn(reader, at, stop);
    found = struct && findEntry(reader, struct.at, struct.stop, rest);
  }
  return undefined;
}

/** The place of a message. */
interface Span {
  readonly at: number;
  readonly stop: number;
}

interface Found extends Span {
  /** The names that follow; undefined at the last one. */
  readonly rest: string | undefined;
}

/** The entry of a map (field 1 of both messages) with the longest key that `names` begins with; the last one counts. */
function findEntry(
  reader: ProtoReader,
  start: number,
  end: number,
  names: string,
): Found | undefined {
  const entry = new MapEntry();
  let found: Found | undefined;
  let longest = 0;
  reader.at = start;
  while (nextMapEntry(reader, end, entry)) {
    const key = entry.key.text(reader.bytes);
    if (key.length < longest || !names.startsWith(key)) continue;
    const whole = key.length === names.length;
    if (!whole && names[key.length] !== ".") continue;
    longest = key.length;
    const { start: at, end: stop } = entry.value;
    found = { at, stop, rest: whole ? undefined : names.slice(key.length + 1) };
  }
  return found;
}

/** The Struct that a Value holds, if it holds one. */
function structIn(reader: ProtoReader, start: number, end: number): Span | undefined {
  let found: Span | undefined;
  reader.at = start;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 5 && reader.wire === BYTES) {
      const stop = reader.sub(end);
      found = { at: reader.at, stop };
      reader.at = stop;
    } else {
      if (field <= 6) found = undefined;
      reader.skip(field, end);
    }
  }
  return found;
}

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain };

function readStruct(reader: ProtoReader, start: number, end: number, depth: number): Plain {
  const struct: { [key: string]: Plain } = Object.create(null);
  const entry = new MapEntry();
  reader.at = start;
  while (nextMapEntry(reader, end, entry)) {
    const next = reader.at;
    const { key, value } = entry;
    struct[key.text(reader.bytes)] = readValue(reader, value.start, value.end, depth);
    reader.at = next;
  }
  return struct;
}

/** The last member of the oneof counts. */
function readValue(reader: ProtoReader, start: number, end: number, depth: number): Plain {
  let value: Plain = null;
  reader.at = start;
  while (reader.at < end) {
    const field = reader.tag(end);
    const { wire } = reader;
    if (field === 1 && wire === VARINT) {
      reader.uint32(end);
      value = null;
    } else if (field === 2 && wire === FIXED64) value = reader.double(end);
    else if (field === 3 && wire === BYTES) value = reader.text(end);
    else if (field === 4 && wire === VARINT) value = reader.bool(end);
    else if ((field === 5 || field === 6) && wire === BYTES) {
      if (depth === 0) throw malformed();
      const stop = reader.sub(end);
      const read = field === 5 ? readStruct : readList;
      value = read(reader, reader.at, stop, depth - 1);
      reader.at = stop;
    } else reader.skip(field, end);
  }
  return value;
}

function readList(reader: ProtoReader, start: number, end: number, depth: number): Plain {
  const list: Plain[] = [];
  reader.at = start;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      const stop = reader.sub(end);
      list.push(readValue(reader, reader.at, stop, depth));
      reader.at = stop;
    } else reader.skip(field, end);
  }
  return list;
}
