// Reads CheckHTTP requests in JSON as most callers write them, in one pass over the bytes and without creating strings.
// All other forms are left to the general parser in `request.ts`.

import { isUtf8 } from "node:buffer";
import { hasControlByte, hasEscapedNul, memoryOf, ReusedCopy } from "../check/bytes.ts";
import {
  type HeaderList,
  type HeaderName,
  type HeaderNames,
  headerByName,
} from "../check/headers.ts";
import { isControlPoint, isPort, type SocketAddress } from "../check/request.ts";
import { JsonScanner, memberNames } from "../json/scanner.ts";
import { fragment } from "../json/writer.ts";
import { asBuffer, ByteSpan } from "../protobuf/reader.ts";
import { CHECK_HTTP_MEMBERS, REQUEST_MEMBERS, SOCKET_MEMBERS } from "./members.ts";

const TOP = memberNames(CHECK_HTTP_MEMBERS);
const SOCKET = memberNames(SOCKET_MEMBERS);
const REQUEST = memberNames(REQUEST_MEMBERS);
const TCP = fragment("TCP");
const UDP = fragment("UDP");
const TRUE = fragment("true");
const FALSE = fragment("false");
const NOTHING = fragment("");
/** Requests with more headers are left to the general parser, because duplicates are found by comparing all pairs. */
const MAX_FAST_HEADERS = 64;
/** Bits of the members that must be present: the request and the control point. */
const REQUIRED = (1 << 3) | (1 << 4);

/** One end of the connection as the caller describes it. */
class DescribedEnd {
  present = false;
  readonly address = new ByteSpan();
  port = 0;

  clear(): void {
    this.present = false;
    this.address.clear();
    this.port = 0;
  }
}

/** One request. The object can be reused for the next one. It borrows the bytes of the body; `copyBytes` copies them. */
export class JsonCheckHttp implements HeaderList {
  rampMode = false;
  expectEnd = false;
  controlPoint = "";
  readonly parts = {
    method: new ByteSpan(),
    path: new ByteSpan(),
    host: new ByteSpan(),
    scheme: new ByteSpan(),
    protocol: new ByteSpan(),
    body: new ByteSpan(),
    size: new ByteSpan(),
  };
  readonly names: HeaderName[] = [];
  readonly repeated = "join";
  readonly id = "";
  readonly #json = new JsonScanner(NOTHING);
  readonly #source = new DescribedEnd();
  readonly #destination = new DescribedEnd();
  /** Start and end offset of each header's value. */
  readonly #values = new Int32Array(2 * MAX_FAST_HEADERS);
  readonly #copy = new ReusedCopy();
  #count = 0;
  /** Bytes of the last good control point, which is usually that of the next request too. */
  #pointBytes: Buffer = NOTHING;

  get bytes(): Buffer {
    return this.#json.bytes;
  }

  get method(): string {
    return this.#text(this.parts.method);
  }

  get path(): string {
    return this.#text(this.parts.path);
  }

  get host(): string {
    return this.#text(this.parts.host);
  }

  get scheme(): string {
    return this.#text(this.parts.scheme);
  }

  get protocol(): string {
    return this.#text(this.parts.protocol);
  }

  get body(): string {
    return this.#text(this.parts.body);
  }

  /** As in DescribedRequest. */
  get bodyCut(): boolean {
    return false;
  }

  /** Decimal text of an int64. */
  get sizeText(): string {
    return this.#text(this.parts.size) || "0";
  }

  get size(): number {
    return Number(this.sizeText);
  }

  get source(): SocketAddress | undefined {
    return this.#end(this.#source);
  }

  get destination(): SocketAddress | undefined {
    return this.#end(this.#destination);
  }

  /** True if a part has exactly these bytes. */
  equals({ start, end }: ByteSpan, expected: Uint8Array): boolean {
    const { length } = expected;
    if (end - start !== length) return false;
    for (let at = 0; at < length; at++) if (this.bytes[start + at] !== expected[at]) return false;
    return true;
  }

  value(index: number): string {
    const start = this.#values[index * 2] ?? 0;
    return this.#slice(start, this.#values[index * 2 + 1] ?? 0);
  }

  /** Value of a header, by its name in lower case. */
  header(name: string): string | undefined {
    return headerByName(this, name);
  }

  /** Only proxies send metadata. */
  metadata(): undefined {
    return undefined;
  }

  /** Copies the bytes, so that the request can be read after the handler has returned, until `releaseBytes`. */
  copyBytes(): void {
    this.#json.bytes = this.#copy.of(this.bytes);
  }

  /** Drops the reference to the bytes. */
  releaseBytes(): void {
    this.#json.bytes = NOTHING;
  }

  /**
   * Reads a body. False for an unusual or invalid one: the general parser must read it. True only if the general
   * parser would read the same and the message's validation rules hold.
   */
  read(body: Uint8Array, names: HeaderNames): boolean {
    const json = this.#json;
    json.reset(asBuffer(body), memoryOf(body, json.memory));
    this.#clear();
    const good =
      this.#top(names) && json.atEnd() && (json.combinedBytes < 0x80 || isUtf8(json.bytes));
    if (this.names.length > this.#count) this.names.length = this.#count;
    return good;
  }

  #clear(): void {
    const { method, path, host, scheme, protocol, body, size } = this.parts;
    method.clear();
    path.clear();
    host.clear();
    scheme.clear();
    protocol.clear();
    body.clear();
    size.clear();
    this.#source.clear();
    this.#destination.clear();
    this.rampMode = false;
    this.expectEnd = false;
    this.#count = 0;
  }

  #slice(start: number, end: number): string {
    return this.bytes.toString(this.#json.combinedBytes < 0x80 ? "latin1" : "utf8", start, end);
  }

  #text({ start, end }: ByteSpan): string {
    return start === end ? "" : this.#slice(start, end);
  }

  #end({ present, address, port }: DescribedEnd): SocketAddress | undefined {
    return present ? { address: this.#text(address), port } : undefined;
  }

  /** Bodies without a request are rare and have another set of labels: they are left to the general parser. */
  #top(names: HeaderNames): boolean {
    const json = this.#json;
    if (!json.open()) return false;
    let seen = 0;
    do {
      const bit = json.name() ? 1 << json.field(TOP) : 1;
      if (bit === 1 || (seen & bit) !== 0) return false;
      seen |= bit;
      if (!this.#member(bit, names)) return false;
    } while (json.more());
    return json.close() && (seen & REQUIRED) === REQUIRED;
  }

  #point(): boolean {
    const json = this.#json;
    if (!json.text()) return false;
    if (json.start < json.end && json.matches(this.#pointBytes)) return true;
    const bytes = Buffer.from(json.bytes.subarray(json.start, json.end));
    const text = bytes.toString("utf8");
    if (!isControlPoint(text)) return false;
    this.#pointBytes = bytes;
    this.controlPoint = text;
    return true;
  }

  #member(bit: number, names: HeaderNames): boolean {
    switch (bit) {
      case 1 << 1:
        return this.#socket(this.#source);
      case 1 << 2:
        return this.#socket(this.#destination);
      case 1 << 3:
        return this.#request(names);
      case 1 << 4:
        return this.#point();
      case 1 << 5:
        return this.#flag("rampMode");
      default:
        return this.#flag("expectEnd");
    }
  }

  #flag(which: "rampMode" | "expectEnd"): boolean {
    const said = this.#json.keyword(TRUE, FALSE);
    if (said === undefined) return false;
    this[which] = said;
    return true;
  }

  #span(span: ByteSpan): boolean {
    const json = this.#json;
    if (!json.text()) return false;
    span.start = json.start;
    span.end = json.end;
    return true;
  }

  #socket(end: DescribedEnd): boolean {
    const json = this.#json;
    if (!json.open()) return false;
    let seen = 0;
    do {
      const field = json.name() ? json.field(SOCKET) : 0;
      const bit = 1 << field;
      if (field === 0 || (seen & bit) !== 0) return false;
      seen |= bit;
      if (field === 1) {
        if (!json.text() || !(json.matches(TCP) || json.matches(UDP))) return false;
      } else if (field === 2) {
        if (!this.#span(end.address)) return false;
      } else if (!this.#port(end)) return false;
    } while (json.more());
    end.present = true;
    return json.close() && end.address.end > end.address.start;
  }

  #port(end: DescribedEnd): boolean {
    const json = this.#json;
    if (!json.integer() || json.end - json.start > 5) return false;
    const port = json.number();
    end.port = port;
    return isPort(port);
  }

  #request(names: HeaderNames): boolean {
    const json = this.#json;
    const { parts } = this;
    if (!json.open()) return false;
    let seen = 0;
    do {
      const field = json.name() ? json.field(REQUEST) : 0;
      const bit = 1 << field;
      if (field === 0 || (seen & bit) !== 0) return false;
      seen |= bit;
      const good = field === 2 ? this.#headers(names) : this.#part(field, parts);
      if (!good) return false;
    } while (json.more());
    return json.close();
  }

  #part(field: number, parts: JsonCheckHttp["parts"]): boolean {
    switch (field) {
      case 1:
        return this.#span(parts.method) && !this.#hasControl(parts.method);
      case 3:
        return this.#span(parts.path) && !this.#hasEscapedNul(parts.path);
      case 4:
        return this.#span(parts.host);
      case 5:
        return this.#span(parts.scheme);
      case 6:
        return this.#size(parts.size);
      case 7:
        return this.#span(parts.protocol);
      default:
        return this.#span(parts.body);
    }
  }

  /** The scanner leaves bytes that are invalid in a path to the general parser, but not their escapes. */
  #hasEscapedNul({ start, end }: ByteSpan): boolean {
    const { memory, offset } = this.#json;
    return hasEscapedNul(memory, offset + start, offset + end);
  }

  /** The scanner leaves control characters to the general parser, except DEL. */
  #hasControl({ start, end }: ByteSpan): boolean {
    const { memory, offset } = this.#json;
    return hasControlByte(memory, offset + start, offset + end);
  }

  #size(size: ByteSpan): boolean {
    const json = this.#json;
    if (!json.integer()) return false;
    size.start = json.start;
    size.end = json.end;
    return true;
  }

  #headers(names: HeaderNames): boolean {
    const json = this.#json;
    if (!json.open()) return false;
    const { memory, offset } = json;
    const limit = Math.min(MAX_FAST_HEADERS, names.maxHeaders);
    let count = 0;
    let seen = 0;
    do {
      if (count === limit || !json.name()) return false;
      const name = names.ofBytes(memory, offset + json.start, offset + json.end);
      if (name.invalid || !json.text()) return false;
      if ((seen & name.bit) !== 0 && this.#has(name, count)) return false;
      seen |= name.bit;
      // The list is not emptied between requests: growing it again would allocate again.
      this.names[count] = name;
      this.#values[count * 2] = json.start;
      this.#values[count * 2 + 1] = json.end;
      count++;
    } while (json.more());
    this.#count = count;
    return json.close();
  }

  #has(name: HeaderName, count: number): boolean {
    for (let at = 0; at < count; at++) if (this.names[at]?.raw === name.raw) return true;
    return false;
  }
}
