// Reads envoy.service.auth.v3.CheckRequest in one pass over its bytes: finds the spans of the parts, makes no strings.

import { BYTES, type ProtoReader, VARINT } from "../protobuf/reader.ts";
import { AuthRequest, type Parts, type SocketSpan } from "./ext-authz.ts";
import type { HeaderNames } from "./headers.ts";

const CONTROL_POINT = "control-point";
const CLIENT_BAGGAGE = "client-baggage";

/**
 * Reads a message into `request`, which may be an object that is no longer used.
 * @throws Fault INVALID_ARGUMENT for malformed bytes, RESOURCE_EXHAUSTED for too many extensions
 */
export function readAuthRequest(
  message: Uint8Array,
  names: HeaderNames,
  request = new AuthRequest(),
): AuthRequest {
  const reader = request.reset(message);
  const { end } = reader;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      readAttributes(reader, reader.sub(end), request, names);
    } else reader.skip(field, end);
  }
  request.finish();
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
    else if (field === 11) reader.span(end, request.parts.metadata);
    else reader.skip(field, end);
  }
}

/** An entry of `context_extensions`, of which two are of interest. */
function readExtension(reader: ProtoReader, end: number, request: AuthRequest): void {
  request.countExtension();
  let name: ReturnType<typeof knownName>;
  let start = 0;
  let stop = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire === BYTES && (field === 1 || field === 2)) {
      const next = reader.sub(end);
      if (field === 1) name = knownName(reader.bytes, reader.at, next);
      else {
        start = reader.at;
        stop = next;
      }
      reader.at = next;
    } else reader.skip(field, end);
  }
  const { controlPoint, clientBaggage } = request.parts;
  const span = name === CONTROL_POINT ? controlPoint : clientBaggage;
  if (name === undefined) return;
  span.start = start;
  span.end = stop;
}

/** The name of an extension that is read; undefined for all others. */
function knownName(bytes: Buffer, start: number, end: number) {
  if (equals(CONTROL_POINT, bytes, start, end)) return CONTROL_POINT;
  return equals(CLIENT_BAGGAGE, bytes, start, end) ? CLIENT_BAGGAGE : undefined;
}

function equals(name: string, bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== name.length) return false;
  for (let at = 0; at < name.length; at++) {
    if (bytes[start + at] !== name.charCodeAt(at)) return false;
  }
  return true;
}

/** A peer with its socket address. Pipes and internal addresses are ignored: no service can be looked up by them. */
function readPeer(reader: ProtoReader, end: number, peer: SocketSpan): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) readAddress(reader, reader.sub(end), peer);
    else reader.skip(field, end);
  }
}

function readAddress(reader: ProtoReader, end: number, peer: SocketSpan): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) readSocketAddress(reader, reader.sub(end), peer);
    else {
      // The last member of a oneof wins.
      if ((field === 2 || field === 3) && reader.wire === BYTES) peer.clear();
      reader.skip(field, end);
    }
  }
}

function readSocketAddress(reader: ProtoReader, end: number, peer: SocketSpan): void {
  peer.present = true;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === BYTES) reader.span(end, peer.address);
    else if (field === 3 && reader.wire === VARINT) peer.port = reader.uint32(end);
    else {
      // A named port replaces a numbered one: the last member of the oneof wins.
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
    } else if (reader.wire === BYTES) readTextSpan(reader, field, end, request.parts);
    else {
      if (field === 9 && reader.wire === VARINT) request.parts.size = reader.at;
      reader.skip(field, end);
    }
  }
}

function readTextSpan(reader: ProtoReader, field: number, end: number, parts: Parts): void {
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
      request.replaceHeaders();
      readHeader(reader, reader.sub(end), request, names, true);
    } else reader.skip(field, end);
  }
}

/** A map entry {key 1, value 2} or, when `raw`, a HeaderValue, which also has raw_value 3. */
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
  // Fast path for the usual encoding: a short key, a short value, and nothing else.
  const usual =
    valueStart <= end &&
    bytes[at] === 0x0a &&
    (bytes[at + 1] ?? 0) < 0x80 &&
    (bytes[keyEnd] === 0x12 || (raw && bytes[keyEnd] === 0x1a)) &&
    (bytes[keyEnd + 1] ?? 0) < 0x80 &&
    valueStart + (bytes[keyEnd + 1] ?? 0) === end;
  if (!usual) {
    readUnusualHeader(reader, end, request, names, raw);
    return;
  }
  reader.at = end;
  // Once the raw list has been seen, the map is ignored: it has the same headers, less exactly.
  if (!raw && request.repeated === "join") return;
  request.addHeader(names, keyStart, keyEnd, valueStart, end);
}

/** Like `readHeader`, for any fields in any order. */
function readUnusualHeader(
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
        // A HeaderValue has a value or a raw value: an empty one does not hide the other.
        start = reader.at;
        stop = next;
      }
      reader.at = next;
    } else reader.skip(field, end);
  }
  if (!raw && request.repeated === "join") return;
  request.addHeader(names, keyStart, keyEnd, start, stop);
}
