// The requests of our own check services as plain objects, and their readers for protobuf, written by hand because
// they run on every check.

import { Fault } from "#base/fault.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { viewOf } from "../protobuf/base64.ts";
import { readTextEntry } from "../protobuf/map-entry.ts";
import { BYTES, FIXED64, ProtoReader, VARINT } from "../protobuf/reader.ts";
import { hasControl, isInvalidPathText, isInvalidText } from "./bytes.ts";
import {
  type HeaderList,
  type HeaderName,
  type HeaderNames,
  headerByName,
  NO_HEADERS,
} from "./headers.ts";

/** One end of a connection. */
export interface SocketAddress {
  readonly address: string;
  readonly port: number;
}

/** A socket as the caller describes it. `protocol` 0 is TCP, 1 is UDP; others are invalid. */
export interface DescribedSocket extends SocketAddress {
  readonly protocol: number;
}

/** True if a number can be the port of a socket, as the messages' validation rules require. */
export function isPort(port: number): boolean {
  return port >= 0 && port <= 65_535;
}

/** Maximum length of the name of a control point: replies, logs and metrics repeat it. */
export const MAX_CONTROL_POINT = 1_024;

/**
 * True if a text can name a control point. A blank at its beginning or end, or bytes that are not UTF-8, which are read as
 * U+FFFD, are a mistake of the caller: no selector would match, and no policy would apply.
 */
export function isControlPoint(text: string): boolean {
  const { length } = text;
  if (length === 0 || length > MAX_CONTROL_POINT || hasControl(text)) return false;
  for (let at = 0; at < length; at++) if (text.charCodeAt(at) === REPLACEMENT) return false;
  return text.charCodeAt(0) !== SPACE && text.charCodeAt(length - 1) !== SPACE;
}

const SPACE = 0x20;
const REPLACEMENT = 0xfffd;

/** An HTTP request as the caller describes it. */
export class DescribedRequest {
  method = "";
  path = "";
  host = "";
  scheme = "";
  protocol = "";
  body = "";
  /** Callers describe bodies whole. A header of the described request says nothing about that. */
  readonly bodyCut = false;
  /** Decimal text of an int64. */
  sizeText = "0";
  headers: HeaderList = NO_HEADERS;
  readonly id = "";
  refusal: Refusal | undefined;
  source: SocketAddress | undefined;
  destination: SocketAddress | undefined;

  get size(): number {
    return Number(this.sizeText);
  }

  /** Judges method, path and host, and adopts the judgement about the headers. */
  finish(): void {
    const headers = this.headers instanceof ListedHeaders ? this.headers.refusal : undefined;
    if (headers !== undefined) this.refusal = headers;
    else if (isInvalidPathText(this.path)) this.refusal = REFUSALS.path;
    else if (isInvalidText(this.host)) this.refusal = REFUSALS.host;
    else if (hasControl(this.method)) this.refusal = REFUSALS.method;
  }

  /** Value of a header by its name in lower case. */
  header(name: string): string | undefined {
    return headerByName(this.headers, name);
  }

  /** Only proxies send metadata. */
  metadata(): undefined {
    return undefined;
  }
}

export interface CheckHttpRequest {
  readonly controlPoint: string;
  readonly source: DescribedSocket | undefined;
  readonly destination: DescribedSocket | undefined;
  readonly request: DescribedRequest | undefined;
  readonly rampMode: boolean;
  readonly expectEnd: boolean;
}

/** The cached values that a check asks for, by key. */
export interface CacheLookup {
  readonly resultKey: string;
  readonly globalKeys: readonly string[];
}

export interface CheckRequest {
  readonly controlPoint: string;
  readonly labels: ReadonlyMap<string, string>;
  /** The reason to refuse the flow before any rule judges it, if there is one. */
  readonly refusal: Refusal | undefined;
  readonly rampMode: boolean;
  readonly expectEnd: boolean;
  readonly cacheLookup: CacheLookup | undefined;
}

export interface InflightRef {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly label: string;
  readonly requestId: string;
  readonly tokens: number;
}

export interface FlowEndRequest {
  readonly controlPoint: string;
  readonly refs: readonly InflightRef[];
  /** As the reply to the check named it; empty where it named none. */
  readonly reservationId: string;
  /** Tokens that the flow cost; undefined where the estimate was right. */
  readonly cost: number | undefined;
  /** HTTP status of the response; 0 where there is none. */
  readonly status: number;
}

/** Fields of Sluice's own in FlowEnd. */
export const FLOW_END_FIELDS = { reservationId: 2000, cost: 2001, status: 2002 } as const;

/** Default maximum number of labels that a caller claims for one flow: all are sorted into the reply. */
const MAX_LABELS = 1_000;

/** Labels that a caller claims for a flow. */
export class ClaimedLabels {
  readonly values = new Map<string, string>();
  refusal: Refusal | undefined;

  readonly #limit: number;

  constructor(limit = MAX_LABELS) {
    this.#limit = limit;
  }

  /** Does nothing where there are too many. */
  add(name: string, value: string): void {
    const { values } = this;
    // One beyond the bound is kept, so that another agent to which the request is forwarded refuses it, too.
    if (this.refusal !== undefined && !values.has(name)) return;
    values.set(name, value);
    if (values.size > this.#limit) this.refusal = REFUSALS.tooManyLabels;
  }
}

/** Maximum number of cached values that one check may ask for: the reply names each of them. */
export const MAX_CACHE_KEYS = 1_000;

/** Headers as lists of names and values. */
export class ListedHeaders implements HeaderList {
  readonly names: HeaderName[] = [];
  readonly values: string[] = [];
  readonly repeated: "last" | "join";
  refusal: Refusal | undefined;

  readonly #limit: number;

  constructor(repeated: "last" | "join", limit: number) {
    this.repeated = repeated;
    this.#limit = limit;
  }

  add(name: HeaderName, value: string): void {
    // One beyond the bound is kept, so that another agent to which the request is forwarded refuses it, too.
    if (this.names.length > this.#limit) return;
    if (this.names.length === this.#limit) this.refusal = REFUSALS.tooManyHeaders;
    if (name.invalid) this.refusal ??= REFUSALS.headerName;
    if (isInvalidText(value)) this.refusal ??= REFUSALS.headerValue;
    this.names.push(name);
    this.values.push(value);
  }

  value(index: number): string {
    return this.values[index] ?? "";
  }
}

/** Maximum number of references in one FlowEnd: all are looked up and answered in one turn. */
export const MAX_REFS = 1_000;

export function tooManyRefs(): Fault {
  return new Fault("INVALID_ARGUMENT", `more than ${MAX_REFS} inflight requests`);
}

export function tooManyCacheKeys(): Fault {
  return new Fault("RESOURCE_EXHAUSTED", `more than ${MAX_CACHE_KEYS} cache keys`, { http: 413 });
}

export function readCheckHttpRequest(message: Uint8Array, names: HeaderNames): CheckHttpRequest {
  const reader = new ProtoReader(message);
  const { end } = reader;
  let controlPoint = "";
  let source: DescribedSocket | undefined;
  let destination: DescribedSocket | undefined;
  let request: DescribedRequest | undefined;
  let rampMode = false;
  let expectEnd = false;
  while (reader.at < end) {
    const field = reader.tag(end);
    const { wire } = reader;
    if (field === 1 && wire === BYTES) source = readSocket(reader, reader.sub(end), source);
    else if (field === 2 && wire === BYTES) {
      destination = readSocket(reader, reader.sub(end), destination);
    } else if (field === 3 && wire === BYTES) {
      request ??= new DescribedRequest();
      readRequest(reader, reader.sub(end), request, names);
    } else if (field === 4 && wire === BYTES) controlPoint = reader.text(end);
    else if (field === 5 && wire === VARINT) rampMode = reader.bool(end);
    else if (field === 6 && wire === VARINT) expectEnd = reader.bool(end);
    else reader.skip(field, end);
  }
  request?.finish();
  return { controlPoint, source, destination, request, rampMode, expectEnd };
}

function readSocket(
  reader: ProtoReader,
  end: number,
  known: DescribedSocket | undefined,
): DescribedSocket {
  let protocol = known?.protocol ?? 0;
  let address = known?.address ?? "";
  let port = known?.port ?? 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === VARINT) protocol = reader.uint32(end) | 0;
    else if (field === 2 && reader.wire === BYTES) address = reader.text(end);
    else if (field === 3 && reader.wire === VARINT) port = reader.uint32(end);
    else reader.skip(field, end);
  }
  return { protocol, address, port };
}

function readRequest(
  reader: ProtoReader,
  end: number,
  request: DescribedRequest,
  names: HeaderNames,
): void {
  let headers: ListedHeaders | undefined;
  if (request.headers instanceof ListedHeaders) headers = request.headers;
  const view = viewOf(reader.bytes);
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 6 && reader.wire === VARINT) request.sizeText = reader.int64Text(end);
    else if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 2) {
      headers ??= new ListedHeaders("last", names.maxHeaders);
      request.headers = headers;
      readHeader(reader, reader.sub(end), headers, view, names);
    } else readTextField(reader, field, end, request);
  }
}

function readTextField(
  reader: ProtoReader,
  field: number,
  end: number,
  request: DescribedRequest,
): void {
  if (field === 1) request.method = reader.text(end);
  else if (field === 3) request.path = reader.text(end);
  else if (field === 4) request.host = reader.text(end);
  else if (field === 5) request.scheme = reader.text(end);
  else if (field === 7) request.protocol = reader.text(end);
  else if (field === 8) request.body = reader.text(end);
  else reader.skip(field, end);
}

function readHeader(
  reader: ProtoReader,
  end: number,
  headers: ListedHeaders,
  view: DataView,
  names: HeaderNames,
): void {
  let start = reader.at;
  let stop = start;
  let value = "";
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 1 && reader.wire === BYTES) {
      stop = reader.sub(end);
      start = reader.at;
      reader.at = stop;
    } else if (field === 2 && reader.wire === BYTES) value = reader.text(end);
    else reader.skip(field, end);
  }
  headers.add(names.ofBytes(view, start, stop), value);
}

export function readCheckRequest(message: Uint8Array, maxLabels?: number): CheckRequest {
  const reader = new ProtoReader(message);
  const { end } = reader;
  const labels = new ClaimedLabels(maxLabels);
  let controlPoint = "";
  let rampMode = false;
  let expectEnd = false;
  let cacheLookup: MutableCacheLookup | undefined;
  while (reader.at < end) {
    const field = reader.tag(end);
    const { wire } = reader;
    if (field === 1 && wire === BYTES) controlPoint = reader.text(end);
    else if (field === 2 && wire === BYTES) {
      readTextEntry(reader, reader.sub(end), labels);
    } else if (field === 3 && wire === VARINT) rampMode = reader.bool(end);
    else if (field === 4 && wire === BYTES) {
      cacheLookup ??= { resultKey: "", globalKeys: [] };
      readLookup(reader, reader.sub(end), cacheLookup);
    } else if (field === 5 && wire === VARINT) expectEnd = reader.bool(end);
    else reader.skip(field, end);
  }
  const { values, refusal } = labels;
  return { controlPoint, labels: values, refusal, rampMode, expectEnd, cacheLookup };
}

/** A CacheLookup while it is read: the field may be repeated, and its parts are merged. */
interface MutableCacheLookup extends CacheLookup {
  resultKey: string;
  readonly globalKeys: string[];
}

function readLookup(reader: ProtoReader, end: number, into: MutableCacheLookup): void {
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field === 2 && reader.wire === BYTES) into.resultKey = reader.text(end);
    else if (field === 3 && reader.wire === BYTES) {
      if (into.globalKeys.length >= MAX_CACHE_KEYS) throw tooManyCacheKeys();
      into.globalKeys.push(reader.text(end));
    } else reader.skip(field, end);
  }
}

export function readFlowEndRequest(message: Uint8Array): FlowEndRequest {
  const reader = new ProtoReader(message);
  const { end } = reader;
  const own = FLOW_END_FIELDS;
  const refs: InflightRef[] = [];
  let controlPoint = "";
  let reservationId = "";
  let cost: number | undefined;
  let status = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    const { wire } = reader;
    if (field === 1 && wire === BYTES) controlPoint = reader.text(end);
    else if (field === 2 && wire === BYTES) {
      if (refs.length >= MAX_REFS) throw tooManyRefs();
      refs.push(readRef(reader, reader.sub(end)));
    } else if (field === own.reservationId && wire === BYTES) reservationId = reader.text(end);
    else if (field === own.cost && wire === FIXED64) cost = reader.double(end);
    else if (field === own.status && wire === VARINT) status = reader.uint32(end);
    else reader.skip(field, end);
  }
  return { controlPoint, refs, reservationId, cost, status };
}

function readRef(reader: ProtoReader, end: number): InflightRef {
  const texts = ["", "", "", "", ""];
  let tokens = 0;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (field <= 5 && reader.wire === BYTES) texts[field - 1] = reader.text(end);
    else if (field === 6 && reader.wire === FIXED64) tokens = reader.double(end);
    else reader.skip(field, end);
  }
  const [policyName = "", policyHash = "", componentId = "", label = "", requestId = ""] = texts;
  return { policyName, policyHash, componentId, label, requestId, tokens };
}
