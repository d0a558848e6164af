// A check of a proxy while it is in progress. The object is reused for the next check together with its request,
// labels and reply, so that a check which need not wait allocates none of them.

import type { Call } from "#base/handler.ts";
import type { Flow, Verdict } from "#flow/flow.ts";
import { AuthRequest } from "#wire/check/ext-authz.ts";
import { readAuthRequest } from "#wire/check/ext-authz-reader.ts";
import { isControlPoint } from "#wire/check/request.ts";
import type { TelemetryWriter } from "#wire/check/response.ts";
import { type SpanField, writeSpanField } from "#wire/check/span-fields.ts";
import type { Fragment } from "#wire/protobuf/base64.ts";
import type { ProtoWriter } from "#wire/protobuf/writer.ts";
import { type OperationContext, replyHeaders } from "../context.ts";
import { servicesLabel, UNKNOWN_SERVICES } from "../labels/attributes.ts";
import {
  TYPE_ENTRY,
  UNKNOWN_SERVICES_AND_TYPE,
  writeServiceLabels,
} from "../labels/encoded-labels.ts";
import { RequestLabels } from "../labels/request-labels.ts";
import { findPeerServices, findServicesCounted } from "../labels/services.ts";
import { ReusableAnswer } from "../reply/check-reply.ts";
import { NO_SERVICES } from "../service-lookup.ts";
import { proxyAttributeFields } from "./attribute-fields.ts";
import { CHECK_SIZE } from "./spare-checks.ts";

const CONTROL_POINT = "control-point";
/** Metadata or context extension in which a proxy says whether to believe its clients' baggage. */
const CLIENT_BAGGAGE = "client-baggage";
const BELIEVE = "believe";

export class ProxyCheck implements Flow, TelemetryWriter {
  controlPoint = "";
  readonly type = "http";
  services: readonly string[] = [];
  readonly http = new AuthRequest();
  readonly labels: RequestLabels;
  readonly rampMode = false;
  readonly expectEnd = false;
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
      "none",
      UNKNOWN_SERVICES,
      UNKNOWN_SERVICES,
      context.flowController.observer,
      context.baggageTrust,
    );
    this.#fields = proxyAttributeFields(http.parts);
  }

  /** Reads a request. Its bytes are borrowed until `http.releaseBytes`, unless `http.copyBytes` copies them. */
  begin(message: Uint8Array, call: Call): void {
    const { http } = this;
    readAuthRequest(message, this.#context.headerNames, http);
    const name = call.header(CONTROL_POINT) ?? http.controlPoint;
    this.controlPoint = isControlPoint(name) ? name : this.#context.fallbackControlPoint(name);
    this.deadline = call.deadline;
    this.#call = call;
    this.#findServices(call);
    const clientBaggage = call.header(CLIENT_BAGGAGE) ?? http.clientBaggage;
    // A misspelt word must not open what `ignore` would have closed.
    const believed = clientBaggage === "" || clientBaggage === BELIEVE;
    this.labels.reset(http.hasHttp ? "proxy" : "none", this.#source, this.#destination, believed);
  }

  /** The flow belongs to the services at the proxy's own address, or to those of the destination if there are none. */
  #findServices(call: Call): void {
    const { serviceLookup: lookup, flowController } = this.#context;
    const { observer } = flowController;
    // Without service discovery, reading the addresses would be wasted work.
    const undiscovered = lookup === NO_SERVICES;
    const { source, destination } = undiscovered ? NO_SOCKETS : this.http;
    const atSource = findServicesCounted(lookup, source?.address ?? "", observer);
    const atDestination = findServicesCounted(lookup, destination?.address ?? "", observer);
    const own = findPeerServices(lookup, undiscovered ? "" : call.peer, observer);
    this.services = own.length > 0 ? own : atDestination;
    this.#source = servicesLabel(atSource);
    this.#destination = servicesLabel(atDestination);
  }

  /** Computed when asked, because only an agent close to overload asks, and before the reply is written. */
  get peer(): string {
    return this.#call?.peer ?? "";
  }

  get size(): number {
    return CHECK_SIZE + this.http.bytes.length;
  }

  /** A `lent` reply is valid until the next reply that is written in this context. */
  reply(verdict: Verdict, call: Call, lent: boolean): Uint8Array {
    const { labelNames: shapes, protobufWriter: proto } = this.#context;
    // A spare check must not keep its last call, and with it a connection, in memory.
    this.#call = undefined;
    replyHeaders(verdict, call);
    const answer = this.#answer.inPlace(this, this.labels, verdict, shapes);
    return proto.writeAuth(answer, answer.telemetryApart ? this : undefined, lent);
  }

  get fixed(): Fragment {
    return this.#source === UNKNOWN_SERVICES && this.#destination === UNKNOWN_SERVICES
      ? UNKNOWN_SERVICES_AND_TYPE
      : TYPE_ENTRY;
  }

  writeTelemetry(out: ProtoWriter): void {
    if (this.fixed === TYPE_ENTRY) writeServiceLabels(out, this.#source, this.#destination);
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
