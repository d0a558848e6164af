// A CheckHTTP request in JSON while it is checked, read in place from its bytes. The object is reused for the next
// request together with its labels and reply, so that a check which need not wait allocates none of them.

import type { Call } from "#base/handler.ts";
import type { Flow, Verdict } from "#flow/flow.ts";
import { type SpanField, writeSpanField } from "#wire/check/span-fields.ts";
import { JsonCheckHttp } from "#wire/check-json/check-http.ts";
import type { JsonTelemetryWriter } from "#wire/check-json/response.ts";
import { fragment, type JsonWriter } from "#wire/json/writer.ts";
import type { ProtoWriter } from "#wire/protobuf/writer.ts";
import { type OperationContext, replyHeaders } from "../context.ts";
import {
  DESTINATION_LABEL,
  FLAVORS,
  SOURCE_LABEL,
  servicesLabel,
  TYPE_LABEL,
  UNKNOWN_SERVICES,
} from "../labels/attributes.ts";
import {
  NO_ENTRIES,
  TYPE_ENTRY,
  UNKNOWN_SERVICES_AND_TYPE,
  writeServiceLabels,
} from "../labels/encoded-labels.ts";
import { RequestLabels } from "../labels/request-labels.ts";
import { findServices } from "../labels/services.ts";
import { ReusableAnswer } from "../reply/check-reply.ts";
import { NO_SERVICES } from "../service-lookup.ts";
import { attributeFields } from "./attribute-fields.ts";
import { CHECK_SIZE } from "./spare-checks.ts";

export class JsonCheck implements Flow, JsonTelemetryWriter {
  readonly type = "http";
  services: readonly string[] = [];
  readonly http = new JsonCheckHttp();
  /** Its telemetry labels may all differ from one request to the next. */
  readonly fixed = NO_ENTRIES;
  readonly labels: RequestLabels;
  deadline = 0;
  #call: Call | undefined;
  readonly #context: OperationContext;
  readonly #answer = new ReusableAnswer();
  readonly #fields: readonly SpanField[];
  #source = UNKNOWN_SERVICES;
  #destination = UNKNOWN_SERVICES;

  constructor(context: OperationContext) {
    this.#context = context;
    const { http } = this;
    this.labels = new RequestLabels(
      http,
      http,
      "described",
      UNKNOWN_SERVICES,
      UNKNOWN_SERVICES,
      context.flowController.observer,
      context.baggageTrust,
    );
    this.#fields = attributeFields(http.parts);
  }

  get controlPoint(): string {
    return this.http.controlPoint;
  }

  get rampMode(): boolean {
    return this.http.rampMode;
  }

  get expectEnd(): boolean {
    return this.http.expectEnd;
  }

  /** Computed when asked, because only an agent close to overload asks, and before the reply is written. */
  get peer(): string {
    return this.#call?.peer ?? "";
  }

  get size(): number {
    return CHECK_SIZE + this.http.bytes.length;
  }

  /**
   * Reads a body. False when only the general parser can tell what is in it. The bytes are borrowed until
   * `http.releaseBytes`, unless `http.copyBytes` copies them.
   */
  begin(body: Uint8Array, call: Call): boolean {
    const { http } = this;
    if (!http.read(body, this.#context.headerNames)) return false;
    this.deadline = call.deadline;
    this.#call = call;
    const { serviceLookup: lookup } = this.#context;
    // Without service discovery, reading the addresses would be wasted work.
    const undiscovered = lookup === NO_SERVICES;
    this.services = findServices(lookup, undiscovered ? "" : (http.destination?.address ?? ""));
    this.#source = servicesLabel(
      findServices(lookup, undiscovered ? "" : (http.source?.address ?? "")),
    );
    this.#destination = servicesLabel(this.services);
    this.labels.reset("described", this.#source, this.#destination);
    return true;
  }

  /** A `lent` reply is valid until the next reply that is written in this context. */
  reply(verdict: Verdict, call: Call, lent: boolean): Buffer {
    const { labelNames: shapes, jsonWriter: json } = this.#context;
    // A spare check must not keep its last call, and with it a connection, in memory.
    this.#call = undefined;
    replyHeaders(verdict, call);
    const answer = this.#answer.inPlace(this, this.labels, verdict, shapes);
    return json.checkHttp(answer, answer.telemetryApart ? this : undefined, lent);
  }

  writeTelemetry(out: ProtoWriter): void {
    if (this.#source === UNKNOWN_SERVICES && this.#destination === UNKNOWN_SERVICES)
      out.fragment(UNKNOWN_SERVICES_AND_TYPE);
    else {
      writeServiceLabels(out, this.#source, this.#destination);
      out.fragment(TYPE_ENTRY);
    }
    const { bytes } = this.http;
    for (let at = 0; at < this.#fields.length; at++) {
      const field = this.#fields[at];
      if (field !== undefined) writeSpanField(out, field, bytes);
    }
  }

  writeTelemetryJson(out: JsonWriter): void {
    const { bytes, parts } = this.http;
    if (this.#source === UNKNOWN_SERVICES && this.#destination === UNKNOWN_SERVICES)
      out.raw(UNKNOWN_SERVICES_AND_METHOD);
    else {
      out.raw(SOURCE_MEMBER);
      out.text(this.#source);
      out.raw(DESTINATION_MEMBER);
      out.text(this.#destination);
      out.raw(METHOD);
    }
    // These texts had no escapes in the request, so they need none in the reply.
    out.shownSpan(bytes, parts.method);
    out.raw(TARGET);
    out.shownSpan(bytes, parts.path);
    out.raw(HOST);
    out.shownSpan(bytes, parts.host);
    out.raw(SCHEME);
    out.shownSpan(bytes, parts.scheme);
    out.raw(FLAVOR);
    const flavor = this.#flavor();
    if (flavor === undefined) out.shownSpan(bytes, parts.protocol);
    else out.literal(flavor);
    out.raw(TYPE_MEMBER);
  }

  /** The flavor where it differs from the protocol's name. */
  #flavor(): string | undefined {
    const { http } = this;
    for (let at = 0; at < FLAVORS_BY_BYTES.length; at++) {
      const known = FLAVORS_BY_BYTES[at];
      if (known !== undefined && http.equals(http.parts.protocol, known.protocol))
        return known.flavor;
    }
    return undefined;
  }
}

const FLAVORS_BY_BYTES: readonly { readonly protocol: Uint8Array; readonly flavor: string }[] =
  Object.entries(FLAVORS).map(([protocol, flavor]) => ({
    protocol: Buffer.from(protocol),
    flavor,
  }));

const SOURCE_MEMBER = fragment(`"${SOURCE_LABEL}":`);
const DESTINATION_MEMBER = fragment(`,"${DESTINATION_LABEL}":`);
const METHOD = fragment(',"http.method":"');
const UNKNOWN = JSON.stringify(UNKNOWN_SERVICES);
const UNKNOWN_SERVICES_AND_METHOD = fragment(
  `"${SOURCE_LABEL}":${UNKNOWN},"${DESTINATION_LABEL}":${UNKNOWN},"http.method":"`,
);
const TARGET = fragment('","http.target":"');
const HOST = fragment('","http.host":"');
const SCHEME = fragment('","http.scheme":"');
const FLAVOR = fragment('","http.flavor":"');
const TYPE_MEMBER = fragment(`","${TYPE_LABEL}":"http"`);
