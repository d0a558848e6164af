// Writes the replies to checks of HTTP requests: the proxy's CheckResponse and our CheckHTTPResponse. Both contain an
// encoded check response, which also travels as dynamic metadata and comes back in access logs.

import { Base64Writer, base64Length, MAX_RETAINED_BYTES } from "../protobuf/base64.ts";
import { ProtoWriter, putVarint, varintSize } from "../protobuf/writer.ts";
import { writePair } from "./request-writer.ts";
import { type CheckReply, CheckResponseWriter, type TelemetryWriter } from "./response.ts";

/** Key of the check response in the dynamic metadata. */
export const METADATA_KEY = "aperture.check_response";

/** gRPC status code in the reply to a refused request (UNAVAILABLE). */
export const DENIED_CODE = 14;

/** The reply to a check of an HTTP request, in whichever encoding it is sent. */
export interface HttpAnswer {
  readonly check: CheckReply;
  /** HTTP status of a refusal. */
  readonly deniedStatus: number;
  /** The reason for a refusal before any rule judged the request; empty otherwise. */
  readonly refusal: string;
  /** Whole seconds; 0 sends no header. */
  readonly retryAfter: number;
  /** New value of the baggage header; undefined leaves the request's headers alone. */
  readonly baggage: string | undefined;
}

/** Initial size: enough for most replies. */
const INITIAL_SIZE = 4_096;

export class HttpAnswerWriter {
  readonly #check = new CheckResponseWriter();
  readonly #out = new ProtoWriter();
  readonly #base64 = new Base64Writer();
  /** The buffer of lent replies, and the last lent reply. */
  #lendable = Buffer.allocUnsafeSlow(INITIAL_SIZE);
  #lent = this.#lendable;

  /**
   * envoy.service.auth.v3.CheckResponse. `telemetry` adds labels to those in the check. A `lent` reply is valid until
   * the next one.
   */
  writeAuth(answer: HttpAnswer, telemetry?: TelemetryWriter, lent = false): Buffer {
    const out = this.#out;
    const check = this.#check.write(answer.check, telemetry);
    out.reset();
    if (answer.check.accepted) {
      out.emptyField(0x0a);
      const ok = out.open(0x1a);
      if (answer.baggage !== undefined) writeHeaderOption(out, "baggage", answer.baggage);
      out.close(ok);
    } else {
      writeDeniedStatus(out, answer.refusal);
      const denied = out.open(0x12);
      const status = out.open(0x0a);
      out.uint32Field(0x08, answer.deniedStatus);
      out.close(status);
      if (answer.retryAfter > 0) writeHeaderOption(out, "retry-after", String(answer.retryAfter));
      out.close(denied);
    }
    return this.#withMetadata(check, lent);
  }

  /** aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse. */
  writeCheckHttp(answer: HttpAnswer): Buffer {
    const out = this.#out;
    const check = this.#check.write(answer.check);
    out.reset();
    if (answer.check.accepted) {
      out.emptyField(0x0a);
      const ok = out.open(0x1a);
      if (answer.baggage !== undefined) writePair(out, 0x0a, "baggage", answer.baggage);
      out.close(ok);
    } else {
      writeDeniedStatus(out, answer.refusal);
      const denied = out.open(0x12);
      out.uint32Field(0x08, answer.deniedStatus);
      if (answer.retryAfter > 0) writePair(out, 0x12, "retry-after", String(answer.retryAfter));
      out.close(denied);
    }
    out.bytesField(0x2a, check.view());
    return this.#withMetadata(check, false);
  }

  /** aperture.flowcontrol.check.v1.CheckResponse. */
  writeCheck(check: CheckReply): Buffer {
    return this.#check.write(check).copy();
  }

  /** Appends the check as a Struct with one string in Base64. All lengths are known, so nothing moves. */
  #withMetadata(check: ProtoWriter, lent: boolean): Buffer {
    const out = this.#out;
    const text = base64Length(check.length);
    const value = 1 + varintSize(text) + text;
    const entry = KEY_FIELD.length + 1 + varintSize(value) + value;
    const struct = 1 + varintSize(entry) + entry;
    const size = out.length + 1 + varintSize(struct) + struct;
    const bytes = lent ? this.#lend(size) : Buffer.allocUnsafe(size);
    let at = out.copyTo(bytes);
    bytes[at++] = DYNAMIC_METADATA;
    at = putVarint(bytes, at, struct);
    bytes[at++] = 0x0a;
    at = putVarint(bytes, at, entry);
    for (let index = 0; index < KEY_FIELD.length; index++) bytes[at++] = KEY_FIELD[index] ?? 0;
    bytes[at++] = 0x12;
    at = putVarint(bytes, at, value);
    bytes[at++] = 0x1a;
    at = putVarint(bytes, at, text);
    check.base64(this.#base64, bytes, at);
    return bytes;
  }

  /** Reuses one buffer: it stays in the processor's cache and creates no garbage. */
  #lend(size: number): Buffer {
    if (this.#lent.length === size) return this.#lent;
    if (size > MAX_RETAINED_BYTES) return Buffer.allocUnsafe(size);
    if (size > this.#lendable.length) this.#lendable = Buffer.allocUnsafeSlow(2 * size);
    this.#lent = this.#lendable.subarray(0, size);
    return this.#lent;
  }
}

/** Tag of the field in both replies. */
const DYNAMIC_METADATA = 0x22;
/** The encoded key of the Struct's only entry. */
const KEY_FIELD = Buffer.from(`\x0a${String.fromCharCode(METADATA_KEY.length)}${METADATA_KEY}`);

/** A google.rpc.Status, whose message is for developers. */
function writeDeniedStatus(out: ProtoWriter, message: string): void {
  const status = out.open(0x0a);
  out.uint32Field(0x08, DENIED_CODE);
  out.textField(0x12, message);
  out.close(status);
}

/** A HeaderValueOption that overwrites: old and new proxies understand `append` false. */
function writeHeaderOption(out: ProtoWriter, key: string, value: string): void {
  const option = out.open(0x12);
  const header = out.open(0x0a);
  out.text(0x0a, key);
  out.textField(0x12, value);
  out.close(header);
  out.emptyField(0x12);
  out.close(option);
}
