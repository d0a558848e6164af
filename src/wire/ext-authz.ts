// The proxy's check: reads envoy.service.auth.v3.CheckRequest in one pass over its bytes and writes the
// CheckResponse. Header values, body and ids become strings only when somebody asks for them.

import { Fault } from "#base/fault.ts";
import {
  type HeaderList,
  type HeaderName,
  type HeaderNames,
  headerAsReceived,
  MAX_HEADERS,
} from "./headers.ts";
import { BYTES, headerText, ProtoReader, VARINT } from "./proto-reader.ts";

export interface SocketEnd {
  readonly address: string;
  readonly port: number;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** One decoded CheckRequest. Its bytes are borrowed: lazy parts may be read until the handler is done. */
export class AuthRequest implements HeaderList {
  method = "";
  path = "";
  host = "";
  scheme = "";
  protocol = "";
  /** Size of the request as decimal text of an int64; -1 when the proxy does not know. */
  sizeText = "0";
  /** Whether the caller described an HTTP request at all. */
  hasHttp = false;
  source: SocketEnd | undefined;
  destination: SocketEnd | undefined;
  contextExtensions: Map<string, string> | undefined;
  repeated: "last" | "join" = "last";

  readonly #bytes: Buffer;
  #names: HeaderName[] = [];
  #values: number[] = [];
  #id: Span | undefined;
  #body: Span | undefined;
  #rawBody: Span | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get names(): readonly HeaderName[] {
    return this.#names;
  }

  value(index: number): string {
    const start = this.#values[index * 2] ?? 0;
    const end = this.#values[index * 2 + 1] ?? 0;
    if (this.repeated === "join") return headerText(this.#bytes, start, end);
    return this.#bytes.toString("utf8", start, end);
  }

  /** Value of a header by its name as received. */
  header(name: string): string | undefined {
    return headerAsReceived(this, name);
  }

  get size(): number {
    return Number(this.sizeText);
  }

  get id(): string {
    return this.#text(this.#id);
  }

  /** `body`, or `raw_body` read as UTF-8 where only that was sent. */
  get body(): string {
    return this.#text(this.#body) || this.#text(this.#rawBody);
  }

  #text(span: Span | undefined): string {
    return span === undefined ? "" : this.#bytes.toString("utf8", span.start, span.end);
  }

  /** For the reader: notes a header by where its value lies. */
  addHeader(name: HeaderName, start: number, end: number): void {
    if (this.#names.length >= MAX_HEADERS) throw tooManyHeaders();
    this.#names.push(name);
    this.#values.push(start, end);
  }

  /** For the reader: from here on headers come as the raw list, which replaces the map. */
  useHeaderMap(): void {
    if (this.repeated === "join") return;
    this.repeated = "join";
    this.#names = [];
    this.#values = [];
  }

  /** For the reader: `id`, `body` or `raw_body` by its field number. */
  noteSpan(field: number, start: number, end: number): void {
    if (field === 1) this.#id = { start, end };
    else if (field === 11) this.#body = { start, end };
    else this.#rawBody = { start, end };
  }
}

export function tooManyHeaders(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `more than ${MAX_HEADERS} headers`, { http: 431 });
}

/** Throws Fault INVALID_ARGUMENT on bytes that are no message, RESOURCE_EXHAUSTED beyond its bounds. */
export function readAuthRequest(message: Uint8Array, names: HeaderNames): AuthRequest {
  const reader = new ProtoReader(message);
  const request = new AuthRequest(reader.bytes);
  const { end } = reader;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      readAttributes(reader, reader.sub(end), request, names);
    } else reader.skip(field, end);
  }
  return request;
}

function readAttributes(
  reader: ProtoReader,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) {
      request.source = readPeer(reader, reader.sub(end), request.source);
    } else if (field === 2) {
      request.destination = readPeer(reader, reader.sub(end), request.destination);
    } else if (field === 4) readRequest(reader, reader.sub(end), request, names);
    else if (field === 10) {
      request.contextExtensions ??= new Map();
      readPair(reader, reader.sub(end), request.contextExtensions);
    } else reader.skip(field, end);
  }
}

/** One entry of a map from string to string. */
export function readPair(reader: ProtoReader, end: number, into: Map<string, string>): void {
  let key = "";
  let value = "";
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) key = reader.text(end);
    else if (field === 2 && reader.wire === BYTES) value = reader.text(end);
    else reader.skip(field, end);
  }
  into.set(key, value);
}

/** Address of a peer; pipes and internal addresses have none that a service could be known by. */
function readPeer(
  reader: ProtoReader,
  end: number,
  known: SocketEnd | undefined,
): SocketEnd | undefined {
  let found = known;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) found = readAddress(reader, reader.sub(end), found);
    else reader.skip(field, end);
  }
  return found;
}

function readAddress(
  reader: ProtoReader,
  end: number,
  known: SocketEnd | undefined,
): SocketEnd | undefined {
  let found = known;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      found = readSocketAddress(reader, reader.sub(end), found);
    } else {
      // A later member of the oneof takes the place of an earlier one.
      if (field === 2 || field === 3) found = undefined;
      reader.skip(field, end);
    }
  }
  return found;
}

function readSocketAddress(
  reader: ProtoReader,
  end: number,
  known: SocketEnd | undefined,
): SocketEnd {
  let address = known?.address ?? "";
  let port = known?.port ?? 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === BYTES) address = reader.text(end);
    else if (field === 3 && reader.wire === VARINT) port = reader.uint32(end);
    else {
      // A named port replaces a numbered one and has no number of its own.
      if (field === 4) port = 0;
      reader.skip(field, end);
    }
  }
  return { address, port };
}

function readRequest(
  reader: ProtoReader,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === BYTES) readHttp(reader, reader.sub(end), request, names);
    else reader.skip(field, end);
  }
}

function readHttp(
  reader: ProtoReader,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
): void {
  request.hasHttp = true;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire === VARINT && field === 9) request.sizeText = reader.int64Text(end);
    else if (reader.wire !== BYTES) reader.skip(field, end);
    else readHttpField(reader, field, end, request, names);
  }
}

function readHttpField(
  reader: ProtoReader,
  field: number,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
): void {
  switch (field) {
    case 2:
      request.method = reader.text(end);
      return;
    case 3:
      readHeader(reader, reader.sub(end), request, names, false);
      return;
    case 4:
      request.path = reader.text(end);
      return;
    case 5:
      request.host = reader.text(end);
      return;
    case 6:
      request.scheme = reader.text(end);
      return;
    case 10:
      request.protocol = reader.text(end);
      return;
    case 13:
      readHeaderMap(reader, reader.sub(end), request, names);
      return;
    default: {
      const stop = reader.sub(end);
      if (field === 1 || field === 11 || field === 12) request.noteSpan(field, reader.at, stop);
      reader.at = stop;
    }
  }
}

function readHeaderMap(
  reader: ProtoReader,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      request.useHeaderMap();
      readHeader(reader, reader.sub(end), request, names, true);
    } else reader.skip(field, end);
  }
}

/** A map entry {key 1, value 2} or a HeaderValue, which has raw_value 3 beside them. */
function readHeader(
  reader: ProtoReader,
  end: number,
  request: AuthRequest,
  names: HeaderNames,
  raw: boolean,
): void {
  let keyStart = 0;
  let keyEnd = 0;
  let start = 0;
  let stop = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire === BYTES && (field === 1 || field === 2 || (raw && field === 3))) {
      const next = reader.sub(end);
      if (field === 1) {
        keyStart = reader.at;
        keyEnd = next;
      } else if (!raw || next > reader.at) {
        // A HeaderValue may have either form; an empty one does not hide the other.
        start = reader.at;
        stop = next;
      }
      reader.at = next;
    } else reader.skip(field, end);
  }
  // The map is ignored once the raw list was seen: it says the same, less exactly.
  if (!raw && request.repeated === "join") return;
  request.addHeader(names.ofBytes(reader.bytes, keyStart, keyEnd), start, stop);
}
