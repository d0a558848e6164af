// One check of the proxy in hand: the request, its labels and the flow made of it are the same objects from
// check to check, so that a check which is answered at once allocates none of them.

import type { Flow, Verdict } from "#flow/flow.ts";
import type { Call } from "#serve/handler.ts";
import type { Fragment } from "#wire/base64.ts";
import type { TelemetryWriter } from "#wire/check-response.ts";
import { AuthRequest, readAuthRequest } from "#wire/ext-authz.ts";
import type { ProtoWriter } from "#wire/proto-writer.ts";
import { type SpanField, spanField, writeSpanField } from "#wire/span-fields.ts";
import { DECISION_ID, type Door, requireControlPoint } from "./door.ts";
import { NOBODY_KNOWN, TYPE, writeServices } from "./fixed-labels.ts";
import { Answer } from "./reply.ts";
import { FLAVORS, RequestLabels } from "./request-labels.ts";
import { findCounted, NO_SERVICES, servicesLabel, UNKNOWN } from "./services.ts";

const CONTROL_POINT = "control-point";

export class ProxyCheck implements Flow, TelemetryWriter {
  controlPoint = "";
  readonly type = "http";
  services: readonly string[] = [];
  readonly http = new AuthRequest();
  readonly labels: RequestLabels;
  readonly rampMode = false;
  readonly expectEnd = false;
  deadline = 0;
  readonly #door: Door;
  readonly #answer = new Answer();
  readonly #fields: readonly SpanField[];
  #source = UNKNOWN;
  #destination = UNKNOWN;

  constructor(door: Door) {
    this.#door = door;
    const { http } = this;
    this.labels = new RequestLabels(http, http, "none", UNKNOWN, UNKNOWN, door.mind.observer);
    const { method, path, host, scheme, protocol } = http.parts;
    this.#fields = [
      spanField("http.method", method),
      spanField("http.target", path),
      spanField("http.host", host),
      spanField("http.scheme", scheme),
      spanField("http.flavor", protocol, FLAVORS),
      spanField("http.path", path),
    ];
  }

  /** Reads the request. Its bytes are borrowed until `release`, or copied by `keep`. */
  begin(message: Uint8Array, call: Call): void {
    const { http } = this;
    readAuthRequest(message, this.#door.names, http);
    this.controlPoint = call.header(CONTROL_POINT) ?? http.controlPoint;
    requireControlPoint(this.controlPoint);
    this.deadline = call.deadline;
    this.#findServices(call);
    this.labels.again(http.hasHttp ? "proxy" : "none", this.#source, this.#destination);
  }

  /** The proxy's own services come first; without any, those of the destination. */
  #findServices(call: Call): void {
    const { lookup, mind } = this.#door;
    const { observer } = mind;
    // Addresses cost more to ask for than to find out that nobody is known.
    const nobody = lookup === NO_SERVICES;
    const { source, destination } = nobody ? NO_SOCKETS : this.http;
    const atSource = findCounted(lookup, source?.address ?? "", observer);
    const atDestination = findCounted(lookup, destination?.address ?? "", observer);
    const own = findCounted(lookup, nobody ? "" : call.peer, observer);
    this.services = own.length > 0 ? own : atDestination;
    this.#source = servicesLabel(atSource);
    this.#destination = servicesLabel(atDestination);
  }

  /** A reply that is lent is only there until the next one of this door. */
  reply(verdict: Verdict, call: Call, lent: boolean): Uint8Array {
    const { shapes, proto, nextId } = this.#door;
    call.reply(DECISION_ID, nextId());
    const answer = this.#answer.inPlace(this, this.labels, verdict, shapes);
    return proto.writeAuth(answer, answer.own ? this : undefined, lent);
  }

  get fixed(): Fragment {
    return this.#source === UNKNOWN && this.#destination === UNKNOWN ? NOBODY_KNOWN : TYPE;
  }

  writeTelemetry(out: ProtoWriter): void {
    if (this.fixed === TYPE) writeServices(out, this.#source, this.#destination);
    const { hasHttp, bytes } = this.http;
    for (let at = 0; hasHttp && at < this.#fields.length; at++) {
      const field = this.#fields[at];
      if (field !== undefined) writeSpanField(out, field, bytes);
    }
  }
}

const NO_SOCKETS: Readonly<Pick<AuthRequest, "source" | "destination">> = {
  source: undefined,
  destination: undefined,
};
