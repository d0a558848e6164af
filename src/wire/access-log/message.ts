// Messages of Envoy's gRPC access log service (envoy.service.accesslog.v3.StreamAccessLogsMessage), read by hand: there is
// an entry for each request. An entry that cannot be read does not affect the others.

import { Fault } from "#base/fault.ts";
import { BYTES, ProtoReader } from "../protobuf/reader.ts";
import { HttpLogEntry } from "./entry.ts";

/** Fields of the message. */
const HTTP = 2;
const TCP = 3;

/** Limit of the entries of one message. Envoy sends some tens at once. */
const MAX_ENTRIES = 10_000;

/**
 * Limit of an entry, in bytes, because it is read in one step. Envoy's entries have a few thousand bytes, or 60 KiB if all
 * headers are logged.
 */
const MAX_ENTRY = 256 * 1024;

/**
 * Reasons why an entry is not read: it is about a TCP connection, it is too large, it or its message is malformed, or the
 * message has too many entries. A malformed message, or one with too many entries, counts once.
 */
export type Unread = "tcp" | "too_large" | "malformed" | "too_many";

export interface EntryReader {
  /** Called with each entry of a request. The entry is reused for the next one. */
  entry(entry: HttpLogEntry): void;
  unread(why: Unread): void;
}

/** Cost of a step besides its bytes: a message may consist of the smallest fields that there are. */
const STEP_COST = 256;

/**
 * Reads a message, and never throws for what is in it. Each step reads one entry, or skips a field, and yields what it cost
 * in bytes. Several messages can be read at the same time, even into one `entry`, which is valid during its call.
 */
export function* readLogMessage(
  message: Uint8Array,
  to: EntryReader,
  entry = new HttpLogEntry(),
): Generator<number, void> {
  const reader = new ProtoReader(message);
  try {
    yield* readMessage(reader, to, entry);
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    to.unread("malformed");
  }
}

function* readMessage(
  reader: ProtoReader,
  to: EntryReader,
  entry: HttpLogEntry,
): Generator<number, void> {
  const { end } = reader;
  let entries = 0;
  while (reader.at < end) {
    // The identifier of node and log is not read: a decision names its control point.
    const before = reader.at;
    const list = reader.tag(end);
    if (reader.wire !== BYTES || (list !== HTTP && list !== TCP)) {
      reader.skip(list, end);
      yield STEP_COST + reader.at - before;
      continue;
    }
    // HTTPAccessLogEntries and TCPAccessLogEntries: in both, `log_entry` is field 1.
    const listEnd = reader.sub(end);
    while (reader.at < listEnd && entries <= MAX_ENTRIES) {
      const start = reader.at;
      const field = reader.tag(listEnd);
      if (field !== 1 || reader.wire !== BYTES) reader.skip(field, listEnd);
      else {
        const stop = reader.sub(listEnd);
        entries += 1;
        if (entries > MAX_ENTRIES) to.unread("too_many");
        else if (list === TCP) to.unread("tcp");
        else if (stop - reader.at > MAX_ENTRY) to.unread("too_large");
        else if (tryRead(entry, reader, stop)) to.entry(entry);
        else to.unread("malformed");
        reader.at = stop;
      }
      yield STEP_COST + reader.at - start;
    }
    reader.at = listEnd;
  }
}

function tryRead(entry: HttpLogEntry, reader: ProtoReader, end: number): boolean {
  try {
    entry.read(reader, end);
    return true;
  } catch (thrown) {
    if (thrown instanceof Fault) return false;
    throw thrown;
  }
}
