// One HTTP request in Envoy's gRPC access log (envoy.data.accesslog.v3.HTTPAccessLogEntry): those parts that matter after
// the request has ended. One object is reused for all entries of a stream; strings are made when they are asked for.

import { findMapEntry, MapEntry, readTextEntry } from "../protobuf/map-entry.ts";
import {
  asBuffer,
  BYTES,
  ByteSpan,
  FIXED64,
  malformed,
  type ProtoReader,
  VARINT,
} from "../protobuf/reader.ts";

/** The times that an entry may have, by their field in AccessLogCommon. Each counts from the start of the request. */
export const TIME = {
  lastRequestByteReceived: 6,
  lastUpstreamByteSent: 8,
  firstUpstreamByteReceived: 9,
  lastDownstreamByteSent: 12,
  end: 23,
} as const;
type TimeField = (typeof TIME)[keyof typeof TIME];

const TIMES: ReadonlySet<number> = new Set(Object.values(TIME));
const TIME_FIELDS = 24;

/** Values of AccessLogType with which Envoy reports a request that has ended: none, and `DownstreamEnd`. */
const FINAL_TYPES: ReadonlySet<number> = new Set([0, 6]);

/** The dynamic metadata of the ext_authz filter: what our answer put there, and Envoy's own measurement. */
const EXT_AUTHZ: readonly number[] = [...Buffer.from("envoy.filters.http.ext_authz")];
const DECISION: readonly number[] = [...Buffer.from("aperture.check_response")];
const CHECK_DURATION: readonly number[] = [...Buffer.from("ext_authz_duration")];

/** Custom tags of one entry: far more than anybody configures. */
const MAX_TAGS = 1_000;

const MS_PER_SECOND = 1e3;
const NS_PER_MS = 1e6;

class Tags {
  readonly texts = new Map<string, string>();

  add(name: string, text: string): void {
    this.texts.set(name, text);
    if (this.texts.size > MAX_TAGS) throw malformed();
  }
}

export class HttpLogEntry {
  #bytes: Buffer = Buffer.alloc(0);
  /** In ms by field; NaN where there is none. */
  readonly #times = new Float64Array(TIME_FIELDS).fill(Number.NaN);
  readonly #decision = new ByteSpan();
  readonly #struct = new ByteSpan();
  readonly #value = new ByteSpan();
  readonly #mapEntry = new MapEntry();
  #tags: Tags | undefined;
  /** False for a report from before the end of the request, or about one attempt to reach the service. */
  isFinal = true;
  /** Milliseconds that the check took; undefined where there was none. */
  checkMs: number | undefined;
  /** Undefined where the client got no response. */
  statusCode: number | undefined;
  /** Bytes of the bodies. */
  requestBytes = 0;
  responseBytes = 0;

  /** The decision in Base64; "" where the request has none. */
  get decision(): string {
    const { start, end } = this.#decision;
    return start === end ? "" : this.#bytes.toString("latin1", start, end);
  }

  /** In ms since the request began; undefined where this did not happen. */
  time(field: TimeField): number | undefined {
    const ms = this.#times[field];
    return ms === undefined || Number.isNaN(ms) ? undefined : ms;
  }

  /** The text of a custom tag. */
  tag(name: string): string | undefined {
    return this.#tags?.texts.get(name);
  }

  /**
   * Reads the entry that ends at `end`. It borrows the bytes: strings can be asked for until the next one is read.
   * @throws Fault INVALID_ARGUMENT for malformed bytes
   */
  read(reader: ProtoReader, end: number): void {
    this.#clear(reader.bytes);
    while (reader.at < end) {
      const field = reader.tag(end);
      if (reader.wire !== BYTES) reader.skip(field, end);
      else if (field === 1) this.#readCommon(reader, reader.sub(end));
      else if (field === 3) this.#readRequest(reader, reader.sub(end));
      else if (field === 4) this.#readResponse(reader, reader.sub(end));
      else reader.skip(field, end);
    }
  }

  #clear(bytes: Uint8Array): void {
    this.#bytes = asBuffer(bytes);
    this.#times.fill(Number.NaN);
    this.#decision.clear();
    this.#tags = undefined;
    this.isFinal = true;
    this.checkMs = undefined;
    this.statusCode = undefined;
    this.requestBytes = 0;
    this.responseBytes = 0;
  }

  #readCommon(reader: ProtoReader, end: number): void {
    while (reader.at < end) {
      const field = reader.tag(end);
      const { wire } = reader;
      if (wire === BYTES && TIMES.has(field))
        this.#times[field] = durationMs(reader, reader.sub(end));
      else if (field === 17 && wire === BYTES) this.#readMetadata(reader, reader.sub(end));
      else if (field === 22 && wire === BYTES) {
        this.#tags ??= new Tags();
        readTextEntry(reader, reader.sub(end), this.#tags);
      } else if (field === 27 && wire === VARINT) {
        if (reader.bool(end)) this.isFinal = false;
      } else if (field === 33 && wire === VARINT) {
        if (!FINAL_TYPES.has(reader.uint32(end))) this.isFinal = false;
      } else reader.skip(field, end);
    }
  }

  /** Metadata.filter_metadata, and in it the Struct of ext_authz. */
  #readMetadata(reader: ProtoReader, end: number): void {
    const struct = this.#struct;
    const entry = this.#mapEntry;
    const { at: start } = reader;
    if (findMapEntry(reader, start, end, EXT_AUTHZ, struct, entry)) {
      if (findMapEntry(reader, struct.start, struct.end, DECISION, this.#value, entry))
        this.#readDecision(reader, this.#value);
      if (findMapEntry(reader, struct.start, struct.end, CHECK_DURATION, this.#value, entry))
        this.checkMs = numberValue(reader, this.#value);
    }
    reader.at = end;
  }

  /** Value.string_value. Of a oneof the last member counts. */
  #readDecision(reader: ProtoReader, { start, end }: ByteSpan): void {
    reader.at = start;
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === 3 && reader.wire === BYTES) reader.span(end, this.#decision);
      else {
        if (field <= 6) this.#decision.clear();
        reader.skip(field, end);
      }
    }
  }

  #readRequest(reader: ProtoReader, end: number): void {
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === 12 && reader.wire === VARINT) this.requestBytes = reader.int64Number(end);
      else reader.skip(field, end);
    }
  }

  #readResponse(reader: ProtoReader, end: number): void {
    while (reader.at < end) {
      const field = reader.tag(end);
      if (field === 1 && reader.wire === BYTES) this.statusCode = wrapped(reader, reader.sub(end));
      else if (field === 3 && reader.wire === VARINT) this.responseBytes = reader.int64Number(end);
      else reader.skip(field, end);
    }
  }
}

/** google.protobuf.Duration. */
function durationMs(reader: ProtoReader, end: number): number {
  let seconds = 0;
  let nanos = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === VARINT) seconds = reader.int64Number(end);
    else if (field === 2 && reader.wire === VARINT) nanos = reader.int64Number(end);
    else reader.skip(field, end);
  }
  return seconds * MS_PER_SECOND + nanos / NS_PER_MS;
}

/** Value.number_value. */
function numberValue(reader: ProtoReader, { start, end }: ByteSpan): number | undefined {
  let value: number | undefined;
  reader.at = start;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === FIXED64) value = reader.double(end);
    else {
      if (field <= 6) value = undefined;
      reader.skip(field, end);
    }
  }
  return value;
}

/** google.protobuf.UInt32Value. */
function wrapped(reader: ProtoReader, end: number): number {
  let value = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === VARINT) value = reader.uint32(end);
    else reader.skip(field, end);
  }
  return value;
}
