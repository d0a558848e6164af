// The replies of the doors that see HTTP requests: the proxy's CheckResponse and our CheckHTTPResponse,
// both around one encoded check response that also travels as dynamic metadata.

import { writePair } from "./check-request.ts";
import { type CheckReply, CheckResponseWriter } from "./check-response.ts";
import { ProtoWriter, varintSize } from "./proto-writer.ts";

/** Key of the dynamic metadata that access logs bring back. */
export const METADATA_KEY = "aperture.check_response";

/** gRPC status inside a reply that turns the request away. */
export const DENIED_CODE = 14;

/** What an HTTP door answers, whatever tongue carries it. */
export interface HttpAnswer {
  readonly check: CheckReply;
  /** HTTP status for a refused caller. */
  readonly deniedStatus: number;
  /** Whole seconds; 0 sends no header. */
  readonly retryAfter: number;
  /** New value of the baggage header; undefined leaves the request's headers alone. */
  readonly baggage: string | undefined;
}

export class HttpAnswerWriter {
  readonly #check = new CheckResponseWriter();
  readonly #out = new ProtoWriter();

  /** envoy.service.auth.v3.CheckResponse. */
  writeAuth(answer: HttpAnswer): Buffer {
    const out = this.#out;
    out.reset();
    if (answer.check.accepted) {
      out.bytesField(0x0a, NOTHING);
      const ok = out.open(0x1a);
      if (answer.baggage !== undefined) writeHeaderOption(out, "baggage", answer.baggage);
      out.close(ok);
    } else {
      writeDeniedStatus(out);
      const denied = out.open(0x12);
      const status = out.open(0x0a);
      out.uint32Field(0x08, answer.deniedStatus);
      out.close(status);
      if (answer.retryAfter > 0) writeHeaderOption(out, "retry-after", String(answer.retryAfter));
      out.close(denied);
    }
    return withMetadata(out.view(), 0x22, this.base64(answer.check));
  }

  /** aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse. */
  writeCheckHttp(answer: HttpAnswer): Buffer {
    const out = this.#out;
    const encoded = this.#check.write(answer.check);
    out.reset();
    if (answer.check.accepted) {
      out.bytesField(0x0a, NOTHING);
      const ok = out.open(0x1a);
      if (answer.baggage !== undefined) writePair(out, 0x0a, "baggage", answer.baggage);
      out.close(ok);
    } else {
      writeDeniedStatus(out);
      const denied = out.open(0x12);
      out.uint32Field(0x08, answer.deniedStatus);
      if (answer.retryAfter > 0) writePair(out, 0x12, "retry-after", String(answer.retryAfter));
      out.close(denied);
    }
    out.bytesField(0x2a, encoded);
    return withMetadata(out.view(), 0x22, encoded.toString("base64"));
  }

  /** aperture.flowcontrol.check.v1.CheckResponse. */
  writeCheck(check: CheckReply): Buffer {
    return Buffer.from(this.#check.write(check));
  }

  /** The encoded check response as text: padded standard base64. */
  base64(check: CheckReply): string {
    return this.#check.write(check).toString("base64");
  }
}

const NOTHING = new Uint8Array(0);

function writeDeniedStatus(out: ProtoWriter): void {
  const status = out.open(0x0a);
  out.uint32Field(0x08, DENIED_CODE);
  out.close(status);
}

/** A HeaderValueOption that overwrites: `append` false is understood by old proxies and new ones. */
function writeHeaderOption(out: ProtoWriter, key: string, value: string): void {
  const option = out.open(0x12);
  const header = out.open(0x0a);
  out.text(0x0a, key);
  out.textField(0x12, value);
  out.close(header);
  out.bytesField(0x12, NOTHING);
  out.close(option);
}

/** Copies the message and adds a Struct of one string to it. All lengths are known, nothing moves. */
function withMetadata(message: Buffer, tag: number, text: string): Buffer {
  const key = METADATA_KEY.length;
  const value = 1 + varintSize(text.length) + text.length;
  const entry = 2 + key + 1 + varintSize(value) + value;
  const struct = 1 + varintSize(entry) + entry;
  const bytes = Buffer.allocUnsafe(message.length + 1 + varintSize(struct) + struct);
  bytes.set(message);
  let at = message.length;
  bytes[at++] = tag;
  at = putLength(bytes, at, struct);
  bytes[at++] = 0x0a;
  at = putLength(bytes, at, entry);
  bytes[at++] = 0x0a;
  bytes[at++] = key;
  at += bytes.write(METADATA_KEY, at, "latin1");
  bytes[at++] = 0x12;
  at = putLength(bytes, at, value);
  bytes[at++] = 0x1a;
  at = putLength(bytes, at, text.length);
  bytes.write(text, at, "latin1");
  return bytes;
}

function putLength(bytes: Buffer, start: number, length: number): number {
  let at = start;
  let rest = length;
  while (rest > 0x7f) {
    bytes[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  bytes[at++] = rest;
  return at;
}
