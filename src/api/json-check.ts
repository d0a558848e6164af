// One described check in JSON in hand, read from the places of its parts: the request, its labels and the flow
// made of it are the same objects from check to check, as at the proxy's door.

import type { Flow, Verdict } from "#flow/flow.ts";
import type { Call } from "#serve/handler.ts";
import { JsonCheckHttp } from "#wire/json-check-http.ts";
import type { JsonTelemetryWriter } from "#wire/json-response.ts";
import { fragment, type JsonWriter } from "#wire/json-writer.ts";
import type { ProtoWriter } from "#wire/proto-writer.ts";
import { type SpanField, spanField, writeSpanField } from "#wire/span-fields.ts";
import { DECISION_ID, type Door } from "./door.ts";
import { NOBODY_KNOWN, NOTHING, TYPE, writeServices } from "./fixed-labels.ts";
import { Answer, TYPE_LABEL } from "./reply.ts";
import { DESTINATION_LABEL, FLAVORS, RequestLabels, SOURCE_LABEL } from "./request-labels.ts";
import { find, NO_SERVICES, servicesLabel, UNKNOWN } from "./services.ts";

export class JsonCheck implements Flow, JsonTelemetryWriter {
  readonly type = "http";
  services: readonly string[] = [];
  readonly http = new JsonCheckHttp();
  /** None of its labels for telemetry is always the same as in the request before. */
  readonly fixed = NOTHING;
  readonly labels: RequestLabels;
  deadline = 0;
  readonly #door: Door;
  readonly #answer = new Answer();
  readonly #fields: readonly SpanField[];
  #source = UNKNOWN;
  #destination = UNKNOWN;

  constructor(door: Door) {
    this.#door = door;
    const { http } = this;
    this.labels = new RequestLabels(http, http, "described", UNKNOWN, UNKNOWN, door.mind.observer);
    const { method, path, host, scheme, protocol } = http.parts;
    this.#fields = [
      spanField("http.method", method),
      spanField("http.target", path),
      spanField("http.host", host),
      spanField("http.scheme", scheme),
      spanField("http.flavor", protocol, FLAVORS),
    ];
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

  /** False for a body that is for the general reader. The bytes are borrowed until `release`, or copied by `keep`. */
  begin(body: Uint8Array, call: Call): boolean {
    const { http } = this;
    if (!http.read(body, this.#door.names)) return false;
    this.deadline = call.deadline;
    const { lookup } = this.#door;
    // Addresses cost more to ask for than to find out that nobody is known.
    const nobody = lookup === NO_SERVICES;
    this.services = find(lookup, nobody ? "" : (http.destination?.address ?? ""));
    this.#source = servicesLabel(find(lookup, nobody ? "" : (http.source?.address ?? "")));
    this.#destination = servicesLabel(this.services);
    this.labels.again("described", this.#source, this.#destination);
    return true;
  }

  /** `lent`: the bytes are good until the next reply of any check. */
  reply(verdict: Verdict, call: Call, lent: boolean): Buffer {
    const { shapes, json, nextId } = this.#door;
    call.reply(DECISION_ID, nextId());
    const answer = this.#answer.inPlace(this, this.labels, verdict, shapes);
    return json.checkHttp(answer, answer.own ? this : undefined, lent);
  }

  writeTelemetry(out: ProtoWriter): void {
    if (this.#source === UNKNOWN && this.#destination === UNKNOWN) out.fragment(NOBODY_KNOWN);
    else {
      writeServices(out, this.#source, this.#destination);
      out.fragment(TYPE);
    }
    const { bytes } = this.http;
    for (let at = 0; at < this.#fields.length; at++) {
      const field = this.#fields[at];
      if (field !== undefined) writeSpanField(out, field, bytes);
    }
  }

  writeTelemetryJson(out: JsonWriter): void {
    const { bytes, parts } = this.http;
    out.raw(SOURCE);
    out.text(this.#source);
    out.raw(DESTINATION);
    out.text(this.#destination);
    // Plain texts need no escape here either.
    out.raw(METHOD);
    out.span(bytes, parts.method);
    out.raw(TARGET);
    out.span(bytes, parts.path);
    out.raw(HOST);
    out.span(bytes, parts.host);
    out.raw(SCHEME);
    out.span(bytes, parts.scheme);
    out.raw(FLAVOR);
    const flavor = this.#flavor();
    if (flavor === undefined) out.span(bytes, parts.protocol);
    else out.literal(flavor);
    out.raw(TYPE_OF_ALL);
  }

  #flavor(): string | undefined {
    for (const [bytes, spelt] of SPELT_OTHERWISE) {
      if (this.http.says(this.http.parts.protocol, bytes)) return spelt;
    }
    return undefined;
  }
}

const SPELT_OTHERWISE: readonly (readonly [Uint8Array, string])[] = Object.entries(FLAVORS).map(
  ([protocol, spelt]) => [Buffer.from(protocol), spelt] as const,
);

const SOURCE = fragment(`"${SOURCE_LABEL}":`);
const DESTINATION = fragment(`,"${DESTINATION_LABEL}":`);
const METHOD = fragment(',"http.method":"');
const TARGET = fragment('","http.target":"');
const HOST = fragment('","http.host":"');
const SCHEME = fragment('","http.scheme":"');
const FLAVOR = fragment('","http.flavor":"');
const TYPE_OF_ALL = fragment(`","${TYPE_LABEL}":"http"`);
