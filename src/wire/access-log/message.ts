// Messages of Envoy's gRPC access log service (envoy.service.accesslog.v3.StreamAccessLogsMessage), read by hand: there is
// an entry for each request. An entry that cannot be read costs no other one.

import { Fault } from "#base/fault.ts";
import { BYTES, ProtoReader } from "../protobuf/reader.ts";
import { HttpLogEntry } from "./entry.ts";

/** Fields of the message. */
const HTTP = 2;
const TCP = 3;

/** Entries of one message that are read. Envoy sends some tens at once. */
const MAX_ENTRIES = 10_000;

/**
 * Reasons why there is no entry to read: it is about a TCP connection, its bytes are malformed (or those of its message
 * are), or the message has too many; these last two count once for a message.
 */
export type Unread = "tcp" | "malformed" | "too_many";

export interface EntryReader {
  /** Called with each entry of a request. The entry is reused for the next one. */
  entry(entry: HttpLogEntry): void;
  unread(why: Unread): void;
}

export class LogMessages {
  readonly #reader = new ProtoReader(new Uint8Array());
  readonly #entry = new HttpLogEntry();
  /** Entries of the message that is read. */
  #entries = 0;

  /** Reads a message, and never throws for what is in it. */
  read(message: Uint8Array, to: EntryReader): void {
    const reader = this.#reader;
    reader.reset(message);
    this.#entries = 0;
    try {
      this.#read(reader, reader.end, to);
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown;
      to.unread("malformed");
    }
  }

  #read(reader: ProtoReader, end: number, to: EntryReader): void {
    while (reader.at < end) {
      // The identifier of node and log is not read: a decision names its control point.
      const field = reader.tag(end);
      if (reader.wire !== BYTES || (field !== HTTP && field !== TCP)) {
        reader.skip(field, end);
        continue;
      }
      const stop = reader.sub(end);
      this.#readList(field, reader, stop, to);
      reader.at = stop;
    }
  }

  /** HTTPAccessLogEntries and TCPAccessLogEntries: in both, `log_entry` is field 1. */
  #readList(
    list: typeof HTTP | typeof TCP,
    reader: ProtoReader,
    end: number,
    to: EntryReader,
  ): void {
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field !== 1 || reader.wire !== BYTES) {
        reader.skip(field, end);
        continue;
      }
      const stop = reader.sub(end);
      this.#entries += 1;
      if (this.#entries > MAX_ENTRIES) {
        if (this.#entries === MAX_ENTRIES + 1) to.unread("too_many");
        return;
      }
      if (list === TCP) to.unread("tcp");
      else if (this.#isReadable(reader, stop)) to.entry(this.#entry);
      else to.unread("malformed");
      reader.at = stop;
    }
  }

  #isReadable(reader: ProtoReader, end: number): boolean {
    try {
      this.#entry.read(reader, end);
      return true;
    } catch (thrown) {
      if (thrown instanceof Fault) return false;
      throw thrown;
    }
  }
}
