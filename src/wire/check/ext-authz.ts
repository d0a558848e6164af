// The request of a proxy's check (envoy.service.auth.v3.CheckRequest): the spans of its parts in the message's
// bytes. A part becomes a string only when it is read.

import { Fault } from "#base/fault.ts";
import { REFUSALS, type Refusal } from "#base/http/refusal.ts";
import { ByteSpan, headerText, ProtoReader, ShortTextDecoder } from "../protobuf/reader.ts";
import { hasControlByte, hasEscapedNul, hasInvalidByte, memoryOf, ReusedCopy } from "./bytes.ts";
import { metadataText } from "./ext-authz/metadata.ts";
import { type HeaderList, type HeaderName, type HeaderNames, headerByName } from "./headers.ts";
import type { SocketAddress } from "./request.ts";

/** One end of the connection. */
export class SocketSpan {
  /** True if the proxy sent a socket address for it. */
  present = false;
  readonly address = new ByteSpan();
  port = 0;

  clear(): void {
    this.present = false;
    this.address.clear();
    this.port = 0;
  }
}

/** The spans of a request's parts. */
export class Parts {
  readonly method = new ByteSpan();
  readonly path = new ByteSpan();
  readonly host = new ByteSpan();
  readonly scheme = new ByteSpan();
  readonly protocol = new ByteSpan();
  readonly id = new ByteSpan();
  readonly body = new ByteSpan();
  readonly rawBody = new ByteSpan();
  readonly controlPoint = new ByteSpan();
  readonly clientBaggage = new ByteSpan();
  readonly metadata = new ByteSpan();
  readonly source = new SocketSpan();
  readonly destination = new SocketSpan();
  /** Offset of the varint; -1 when it is absent. */
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
    this.clientBaggage.clear();
    this.metadata.clear();
    this.source.clear();
    this.destination.clear();
    this.size = -1;
  }
}

/** Number of headers for which there is initially room. */
const INITIAL_HEADERS = 64;
/** Envoy's header: whether it sent only the beginning of a body. It replaces what a client sends under this name. */
const PARTIAL_BODY = "x-envoy-auth-partial-body";
/** Maximum number of `context_extensions` of one request: far more than any operator configures. */
const MAX_EXTENSIONS = 1_000;
const NOTHING = Buffer.alloc(0);

/**
 * One CheckRequest. The object can be reused for the next one. It borrows the bytes of the message: to read it after
 * the handler has returned, call `copyBytes` before.
 */
export class AuthRequest implements HeaderList {
  /** True if the message has an HTTP request at all. */
  hasHttp = false;
  repeated: "last" | "join" = "last";
  refusal: Refusal | undefined;
  readonly names: HeaderName[] = [];
  readonly parts = new Parts();
  readonly #reader = new ProtoReader(NOTHING);
  readonly #decoder = new ShortTextDecoder();
  readonly #copy = new ReusedCopy();
  #count = 0;
  #extensions = 0;
  /** A view of the whole ArrayBuffer behind the message, and the offset of the message in it. */
  #memory: DataView = new DataView(NOTHING.buffer);
  #offset = 0;
  /** Start and end of each header's value. */
  #values = new Int32Array(2 * INITIAL_HEADERS);

  get bytes(): Buffer {
    return this.#reader.bytes;
  }

  /** `context_extensions["control-point"]`; empty when it is absent. */
  get controlPoint(): string {
    return this.parts.controlPoint.text(this.bytes);
  }

  /** `context_extensions["client-baggage"]`; empty when it is absent. */
  get clientBaggage(): string {
    return this.parts.clientBaggage.text(this.bytes);
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

  /** `body`, or `raw_body` decoded as UTF-8 when only that was sent. */
  get body(): string {
    return this.parts.body.text(this.bytes) || this.parts.rawBody.text(this.bytes);
  }

  get bodyCut(): boolean {
    return this.header(PARTIAL_BODY) === "true";
  }

  get source(): SocketAddress | undefined {
    return this.#socket(this.parts.source);
  }

  get destination(): SocketAddress | undefined {
    return this.#socket(this.parts.destination);
  }

  #socket({ present, address, port }: SocketSpan): SocketAddress | undefined {
    return present ? { address: address.text(this.bytes), port } : undefined;
  }

  /** Size of the body as decimal text of an int64; -1 when the proxy does not know it. */
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
    return this.#decoder.text(this.bytes, start, end);
  }

  /** Value of a header, by its name in lower case. */
  header(name: string): string | undefined {
    return headerByName(this, name);
  }

  /** A value of `metadata_context.filter_metadata`, by its namespace and keys. */
  metadata(names: string): string | undefined {
    const { start, end } = this.parts.metadata;
    return start === end ? undefined : metadataText(this.bytes, start, end, names);
  }

  /** Copies the bytes, so that the request can be read after the handler has returned, until `releaseBytes`. */
  copyBytes(): void {
    const { at, bytes } = this.#reader;
    this.#reader.reset(this.#copy.of(bytes));
    this.#reader.at = at;
  }

  /** Drops the reference to the bytes. */
  releaseBytes(): void {
    this.#reader.bytes = NOTHING;
  }

  /** Prepares for reading another message; returns the reader of its bytes. */
  reset(message: Uint8Array): ProtoReader {
    this.hasHttp = false;
    this.refusal = undefined;
    this.#extensions = 0;
    this.repeated = "last";
    this.parts.clear();
    this.#count = 0;
    this.#reader.reset(message);
    this.#memory = memoryOf(message, this.#memory);
    this.#offset = message.byteOffset;
    return this.#reader;
  }

  /** Adds a header by the offsets of its name and value. */
  addHeader(names: HeaderNames, key: number, keyEnd: number, start: number, end: number): void {
    const at = this.#count;
    if (at >= names.maxHeaders) {
      this.refusal = REFUSALS.tooManyHeaders;
      return;
    }
    const memory = this.#memory;
    const offset = this.#offset;
    if (hasInvalidByte(memory, offset + start, offset + end)) this.refusal ??= REFUSALS.headerValue;
    if (at * 2 === this.#values.length) this.#grow();
    // The list is not emptied between requests: growing it again would allocate again.
    const name = names.ofBytes(memory, offset + key, offset + keyEnd);
    if (name.invalid) this.refusal ??= REFUSALS.headerName;
    this.names[at] = name;
    this.#values[at * 2] = start;
    this.#values[at * 2 + 1] = end;
    this.#count = at + 1;
  }

  /** Counts an entry of `context_extensions`. Throws when there are too many. */
  countExtension(): void {
    this.#extensions += 1;
    if (this.#extensions > MAX_EXTENSIONS) throw tooManyExtensions();
  }

  /** Drops the headers of the map, because the raw list (`header_map`) replaces them. */
  replaceHeaders(): void {
    if (this.repeated === "join") return;
    this.repeated = "join";
    this.#count = 0;
  }

  /** Ends reading: judges method, path and host, and drops surplus headers of the request before. */
  finish(): void {
    const { method, path, host } = this.parts;
    const memory = this.#memory;
    const offset = this.#offset;
    if (
      hasInvalidByte(memory, offset + path.start, offset + path.end) ||
      hasEscapedNul(memory, offset + path.start, offset + path.end)
    ) {
      this.refusal ??= REFUSALS.path;
    } else if (hasInvalidByte(memory, offset + host.start, offset + host.end)) {
      this.refusal ??= REFUSALS.host;
    } else if (hasControlByte(memory, offset + method.start, offset + method.end)) {
      this.refusal ??= REFUSALS.method;
    }
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
