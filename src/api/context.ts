// The objects that all check operations of one agent share: the flow controller, the service lookup, reply writers, and
// caches of what callers send again and again.

import type { Chance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { Verdict } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";
import type { Observer } from "#flow/observer.ts";
import { HeaderNames } from "#wire/check/headers.ts";
import { HttpAnswerWriter } from "#wire/check/http-reply.ts";
import { isControlPoint, MAX_CONTROL_POINT } from "#wire/check/request.ts";
import { JsonAnswerWriter } from "#wire/check-json/response.ts";
import type { UnknownMember } from "#wire/json/strict.ts";
import { type BaggageSettings, BaggageTrust, EVERY_MEMBER } from "./labels/baggage-trust.ts";
import { LabelNameCache } from "./labels/label-name-cache.ts";
import type { ServiceLookup } from "./service-lookup.ts";

/** Reply header with the id of the decision, which is unique among all agents. */
export const DECISION_ID_HEADER = "x-sluice-decision-id";

/**
 * Reply header with the reason why a flow was refused before any rule judged it, for replies without a member that fits.
 */
export const REFUSAL_HEADER = "x-sluice-refusal";

/** Reply header of a flow that nobody judged, because the agent is overloaded: the cause. */
export const SHED_HEADER = "x-sluice-shed";

/** The headers of replies to checks (metadata, over gRPC) besides those of the protocol, each with what it says. */
export const REPLY_HEADERS: ReadonlyMap<string, string> = new Map([
  [DECISION_ID_HEADER, "Id of the decision, unique among all agents; of every reply."],
  [
    REFUSAL_HEADER,
    "Reason why a flow was refused before any rule judged it; only of `FlowControlService/Check`.",
  ],
  [
    SHED_HEADER,
    "The flow was [shed](policy-components.md#when-a-limiter-cannot-decide): nobody judged it, because the agent is overloaded, and the failure modes of its policies answered. `delay`: the agent lacks processor time; `cost`: likewise, and the caller takes more than its fair share, so limiters refused the flow; `in_progress`: too many checks wait for other servers.",
  ],
]);

/** Bounds of a request, read once when the context is made. The keys of `server.http` have the same names. */
export interface RequestBounds {
  /** Length of the longest baggage header that is read. */
  readonly max_baggage_bytes?: number | undefined;
  /** Headers of a request that a check describes. */
  readonly max_headers?: number | undefined;
  /** Labels that the caller of Check claims. */
  readonly max_labels?: number | undefined;
  /** Nesting of objects and lists in a JSON body. */
  readonly max_json_depth?: number | undefined;
}

export interface OperationContext {
  readonly flowController: FlowController;
  readonly serviceLookup: ServiceLookup;
  readonly headerNames: HeaderNames;
  readonly bounds: Pick<RequestBounds, "max_labels" | "max_json_depth">;
  readonly baggageTrust: BaggageTrust;
  readonly labelNames: LabelNameCache;
  readonly protobufWriter: HttpAnswerWriter;
  readonly jsonWriter: JsonAnswerWriter;
  /** The control point for a proxy's check that names none, or whose `name` is invalid. Throws where none is configured. */
  fallbackControlPoint(name: string): string;
  /** Called with the members of JSON requests that the message does not have. */
  readonly unknownMember: UnknownMember;
}

/** Settings of the operations, from the configuration. */
export interface OperationSettings {
  readonly bounds?: RequestBounds;
  readonly baggage?: BaggageSettings;
  readonly fallbackControlPoint?: (name: string) => string;
  readonly unknownMember?: UnknownMember;
}

export function createOperationContext(
  flowController: FlowController,
  serviceLookup: ServiceLookup,
  chance: Chance,
  {
    bounds = {},
    baggage = EVERY_MEMBER,
    fallbackControlPoint = refuseControlPoint,
    unknownMember = () => undefined,
  }: OperationSettings = {},
): OperationContext {
  const { max_baggage_bytes, max_headers, max_labels, max_json_depth } = bounds;
  return {
    flowController,
    serviceLookup,
    headerNames: new HeaderNames(chance, max_headers),
    bounds: { max_labels, max_json_depth },
    baggageTrust: new BaggageTrust(baggage, max_baggage_bytes),
    labelNames: new LabelNameCache(),
    protobufWriter: new HttpAnswerWriter(),
    jsonWriter: new JsonAnswerWriter(),
    fallbackControlPoint,
    unknownMember,
  };
}

/** Adds the headers of a verdict: its decision id, and the reason why nobody judged the flow. */
export function replyHeaders(verdict: Verdict, call: Call): void {
  call.reply(DECISION_ID_HEADER, verdict.decisionId);
  if (verdict.shed !== undefined) call.reply(SHED_HEADER, verdict.shed);
}

/** @throws Fault INVALID_ARGUMENT when a message names no control point, without which no rule can be selected */
export function requireControlPoint(controlPoint: string): void {
  if (!isControlPoint(controlPoint)) refuseControlPoint(controlPoint);
}

/** @throws Fault INVALID_ARGUMENT always: the name is absent or cannot be used */
function refuseControlPoint(name: string): never {
  const wanted = `at most ${MAX_CONTROL_POINT} characters, none of them a control character, only Unicode, and no blank at either end`;
  throw new Fault(
    "INVALID_ARGUMENT",
    name === "" ? "missing control-point" : `control_point must have ${wanted}`,
  );
}

/**
 * Returns the function that gives a proxy's check without a control point the `configured` one, for control planes that have
 * no place for its name, such as Istio's extension providers. Where that is empty, such a check gets an error, which many
 * proxies are told to let pass: each is counted, and the first one is logged.
 */
export function defaultControlPoint(
  configured: string,
  observer: Pick<Observer, "anomaly">,
  log: Log,
): (name: string) => string {
  let isLogged = false;
  return (name) => {
    if (name !== "") refuseControlPoint(name);
    if (configured !== "") return configured;
    observer.anomaly("no_control_point");
    if (!isLogged) log.warn({}, NO_CONTROL_POINT);
    isLogged = true;
    return refuseControlPoint(name);
  };
}

const NO_CONTROL_POINT =
  'a proxy asks without a control point and gets errors, with which it may let every request pass: let it send the metadata "control-point" or the context extension "control-point", or set flow_control.default_control_point';
