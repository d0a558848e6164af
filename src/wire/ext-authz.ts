// The proxy's check: reads envoy.service.auth.v3.CheckRequest in one pass over its bytes and notes
// where its parts lie. Nothing of it becomes a string before somebody asks for it.

import { Fault } from "#base/fault.ts";
import {
  type HeaderList,
  type HeaderName,
  type HeaderNames,
  headerAsReceived,
  MAX_HEADERS,
} from "./headers.ts";
import { BYTES, headerText, ProtoReader, ShortTexts, Span, VARINT } from "./proto-reader.ts";

export interface SocketEnd {
  readonly address: string;
  readonly port: number;
}

/** One end of the connection, where the proxy named a socket. */
class SocketPart {
  present = false;
  readonly address = new Span();
  port = 0;

  clear(): void {
    this.present = false;
    this.address.clear();
    this.port = 0;
  }
}

/** Where the parts of a request lie in its bytes. */
class Parts {
  readonly method = new Span();
  readonly path = new Span();
  readonly host = new Span();
  readonly scheme = new Span();
  readonly protocol = new Span();
  readonly id = new Span();
  readonly body = new Span();
  readonly rawBody = new Span();
  readonly controlPoint = new Span();
  readonly source = new SocketPart();
  readonly destination = new SocketPart();
  /** Of the varint; -1 where there is none. */
  size = -1;

  clear(): void {
    this.method.clear();
    this.path.clear();
    this.host.clear();
    this.scheme.clear();
    this.protocol.clear();
    this.id.clear();
    this.body.clear();
    this.rawBody.clear();
    this.controlPoint.clear();
    this.source.clear();
    this.destination.clear();
    this.size = -1;
  }
}

/** Headers that a request has room for from the start. */
const FIRST_HEADERS = 64;
/** More entries of `context_extensions` than any operator writes: beyond it the request is refused. */
const MAX_EXTENSIONS = 1_000;
const CONTROL_POINT = "control-point";
const NOTHING = Buffer.alloc(0);

/**
 * One decoded CheckRequest, which may be used again for the next. Its bytes are borrowed: whoever reads it
 * after its handler returned calls `keep` before that.
 */
export class AuthRequest implements HeaderList {
  /** Whether the caller described an HTTP request at all. */
  hasHttp = false;
  repeated: "last" | "join" = "last";
  readonly names: HeaderName[] = [];
  readonly parts = new Parts();
  readonly #reader = new ProtoReader(NOTHING);
  readonly #short = new ShortTexts();
  #count = 0;
  #extensions = 0;
  /** Start and end of each header's value. */
  #values = new Int32Array(2 * FIRST_HEADERS);

  get bytes(): Buffer {
    return this.#reader.bytes;
  }

  /** `context_extensions["control-point"]`, empty where there is none. */
  get controlPoint(): string {
    return this.parts.controlPoint.text(this.bytes);
  }

  get method(): string {
    return this.parts.method.text(this.bytes);
  }

  get path(): string {
    return this.parts.path.text(this.bytes);
  }

  get host(): string {
    return this.parts.host.text(this.bytes);
  }

  get scheme(): string {
    return this.parts.scheme.text(this.bytes);
  }

  get protocol(): string {
    return this.parts.protocol.text(this.bytes);
  }

  get id(): string {
    return this.parts.id.text(this.bytes);
  }

  /** `body`, or `raw_body` read as UTF-8 where only that was sent. */
  get body(): string {
    return this.parts.body.text(this.bytes) || this.parts.rawBody.text(this.bytes);
  }

  get source(): SocketEnd | undefined {
    return this.#socket(this.parts.source);
  }

  get destination(): SocketEnd | undefined {
    return this.#socket(this.parts.destination);
  }

  #socket({ present, address, port }: SocketPart): SocketEnd | undefined {
    return present ? { address: address.text(this.bytes), port } : undefined;
  }

  /** Size of the request as decimal text of an int64; -1 when the proxy does not know. */
  get sizeText(): string {
    if (this.parts.size < 0) return "0";
    this.#reader.at = this.parts.size;
    return this.#reader.int64Text(this.#reader.end);
  }

  get size(): number {
    return Number(this.sizeText);
  }

  value(index: number): string {
    const start = this.#values[index * 2] ?? 0;
    const end = this.#values[index * 2 + 1] ?? 0;
    if (this.repeated === "join") return headerText(this.bytes, start, end);
    return this.#short.text(this.bytes, start, end);
  }

  /** Value of a header by its name as received. */
  header(name: string): string | undefined {
    return headerAsReceived(this, name);
  }

  /** Takes a copy of the bytes: the request will be read after they are given back. */
  keep(): void {
    const { at, bytes } = this.#reader;
    this.#reader.begin(Buffer.from(bytes));
    this.#reader.at = at;
  }

  /** Lets go of the bytes. */
  release(): void {
    this.#reader.bytes = NOTHING;
  }

  /** For `readAuthRequest`: nothing is known yet of what these bytes say. */
  begin(message: Uint8Array): ProtoReader {
    this.hasHttp = false;
    this.#extensions = 0;
    this.repeated = "last";
    this.parts.clear();
    this.#count = 0;
    this.#reader.begin(message);
    return this.#reader;
  }

  /** Notes a header by where its name and value lie. */
  addHeader(names: HeaderNames, key: number, keyEnd: number, start: number, end: number): void {
    const at = this.#count;
    if (at >= MAX_HEADERS) throw tooManyHeaders();
    if (at * 2 === this.#values.length) this.#grow();
    // Not emptied before: a list that grows anew for each request would be allocated anew.
    this.names[at] = names.ofBytes(this.bytes, key, keyEnd);
    this.#values[at * 2] = start;
    this.#values[at * 2 + 1] = end;
    this.#count = at + 1;
  }

  /** Counts an entry of `context_extensions`, whatever its name. */
  countExtension(): void {
    this.#extensions += 1;
    if (this.#extensions > MAX_EXTENSIONS) throw tooManyExtensions();
  }

  /** From here on headers come as the raw list, which replaces the map. */
  useHeaderMap(): void {
    if (this.repeated === "join") return;
    this.repeated = "join";
    this.#count = 0;
  }

  end(): void {
    if (this.names.length > this.#count) this.names.length = this.#count;
  }

  #grow(): void {
    const larger = new Int32Array(this.#values.length * 2);
    larger.set(this.#values);
    this.#values = larger;
  }
}

function tooManyExtensions(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `more than ${MAX_EXTENSIONS} context extensions`, {
    http: 431,
  });
}

export function tooManyHeaders(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `more than ${MAX_HEADERS} headers`, { http: 431 });
}

/**
 * Throws Fault INVALID_ARGUMENT on bytes that are no message, RESOURCE_EXHAUSTED beyond its bounds. `request`
 * is one that nobody reads any more.
 */
export function readAuthRequest(
  message: Uint8Array,
  names: HeaderNames,
  request = new AuthRequest(),
): AuthRequest {
  const reader = request.begin(message);
  const { end } = reader;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      readAttributes(reader, reader.sub(end), request, names);
    } else reader.skip(field, end);
  }
  request.end();
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
      readPeer(reader, reader.sub(end), request.parts.source);
    } else if (field === 2) {
      readPeer(reader, reader.sub(end), request.parts.destination);
    } else if (field === 4) readRequest(reader, reader.sub(end), request, names);
    else if (field === 10) readExtension(reader, reader.sub(end), request);
    else reader.skip(field, end);
  }
}

/** An entry of `context_extensions`. Of all that an operator wrote into them only the control point is read here. */
function readExtension(reader: ProtoReader, end: number, request: AuthRequest): void {
  request.countExtension();
  let named = false;
  let start = 0;
  let stop = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire === BYTES && (field === 1 || field === 2)) {
      const next = reader.sub(end);
      if (field === 1) named = isControlPoint(reader.bytes, reader.at, next);
      else {
        start = reader.at;
        stop = next;
      }
      reader.at = next;
    } else reader.skip(field, end);
  }
  if (!named) return;
  const { controlPoint } = request.parts;
  controlPoint.start = start;
  controlPoint.end = stop;
}

function isControlPoint(bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== CONTROL_POINT.length) return false;
  for (let at = 0; at < CONTROL_POINT.length; at++) {
    if (bytes[start + at] !== CONTROL_POINT.charCodeAt(at)) return false;
  }
  return true;
}

/** Address of a peer; pipes and internal addresses have none that a service could be known by. */
function readPeer(reader: ProtoReader, end: number, peer: SocketPart): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) readAddress(reader, reader.sub(end), peer);
    else reader.skip(field, end);
  }
}

function readAddress(reader: ProtoReader, end: number, peer: SocketPart): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) readSocketAddress(reader, reader.sub(end), peer);
    else {
      // A later member of the oneof takes the place of an earlier one.
      if ((field === 2 || field === 3) && reader.wire === BYTES) peer.clear();
      reader.skip(field, end);
    }
  }
}

function readSocketAddress(reader: ProtoReader, end: number, peer: SocketPart): void {
  peer.present = true;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === BYTES) reader.span(end, peer.address);
    else if (field === 3 && reader.wire === VARINT) peer.port = reader.uint32(end);
    else {
      // A named port replaces a numbered one and has no number of its own.
      if (field === 4 && reader.wire === BYTES) peer.port = 0;
      reader.skip(field, end);
    }
  }
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
    if (field === 3 && reader.wire === BYTES) {
      readHeader(reader, reader.sub(end), request, names, false);
    } else if (field === 13 && reader.wire === BYTES) {
      readHeaderMap(reader, reader.sub(end), request, names);
    } else if (reader.wire === BYTES) noteText(reader, field, end, request.parts);
    else {
      if (field === 9 && reader.wire === VARINT) request.parts.size = reader.at;
      reader.skip(field, end);
    }
  }
}

function noteText(reader: ProtoReader, field: number, end: number, parts: Parts): void {
  if (field === 1) reader.span(end, parts.id);
  else if (field === 2) reader.span(end, parts.method);
  else if (field === 4) reader.span(end, parts.path);
  else if (field === 5) reader.span(end, parts.host);
  else if (field === 6) reader.span(end, parts.scheme);
  else if (field === 10) reader.span(end, parts.protocol);
  else if (field === 11) reader.span(end, parts.body);
  else if (field === 12) reader.span(end, parts.rawBody);
  else reader.skip(field, end);
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
  const { bytes, at } = reader;
  const keyStart = at + 2;
  const keyEnd = keyStart + (bytes[at + 1] ?? 0);
  const valueStart = keyEnd + 2;
  // As writers send it: a short key, a short value, and nothing else. One look tells, few steps read it.
  const plain =
    valueStart <= end &&
    bytes[at] === 0x0a &&
    (bytes[at + 1] ?? 0) < 0x80 &&
    (bytes[keyEnd] === 0x12 || (raw && bytes[keyEnd] === 0x1a)) &&
    (bytes[keyEnd + 1] ?? 0) < 0x80 &&
    valueStart + (bytes[keyEnd + 1] ?? 0) === end;
  if (!plain) {
    readOddHeader(reader, end, request, names, raw);
    return;
  }
  reader.at = end;
  // The map is ignored once the raw list was seen: it says the same, less exactly.
  if (!raw && request.repeated === "join") return;
  request.addHeader(names, keyStart, keyEnd, valueStart, end);
}

/** The same, whatever its fields and their order. */
function readOddHeader(
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
  if (!raw && request.repeated === "join") return;
  request.addHeader(names, keyStart, keyEnd, start, stop);
}
