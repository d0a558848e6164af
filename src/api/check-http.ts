// FlowControlServiceHTTP/CheckHTTP, for callers that describe an HTTP request themselves: in protobuf and in JSON.

import { Fault } from "#base/fault.ts";
import type { Call, HttpHandler, Route, UnaryHandler } from "#base/handler.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import type { HttpAnswer } from "#wire/check/http-reply.ts";
import {
  type CheckHttpRequest,
  DescribedRequest,
  type DescribedSocket,
  isPort,
  readCheckHttpRequest,
} from "#wire/check/request.ts";
import { checkHttpFromJson } from "#wire/check-json/request.ts";
import { type OperationContext, replyHeaders, requireControlPoint } from "./context.ts";
import { JsonCheck } from "./fast-path/json-check.ts";
import { SpareChecks } from "./fast-path/spare-checks.ts";
import { servicesLabel } from "./labels/attributes.ts";
import { RequestLabels } from "./labels/request-labels.ts";
import { findServices } from "./labels/services.ts";
import { httpAnswer } from "./reply/check-reply.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { andThen, judged, replyTo, replyWhenSettled } from "./reply/verdict.ts";

/**
 * The validation rules in the message's proto file, written by hand because the path is hot. `JsonCheckHttp` applies
 * them too while it reads: a body that breaks one is not read there and ends here, where it is refused.
 */
function validate({ source, destination }: CheckHttpRequest): void {
  validateSocket(source, "source");
  validateSocket(destination, "destination");
}

function validateSocket(socket: DescribedSocket | undefined, field: string): void {
  if (socket === undefined) return;
  if (socket.address === "") refuse(`${field}.address must not be empty`);
  if (!isPort(socket.port)) refuse(`${field}.port must be at most 65535`);
  if (socket.protocol !== 0 && socket.protocol !== 1)
    refuse(`${field}.protocol must be TCP or UDP`);
}

function refuse(message: string): never {
  throw new Fault("INVALID_ARGUMENT", message);
}

/** Judges a described request, in whichever encoding its message came. */
function checkHttp(
  context: OperationContext,
  message: CheckHttpRequest,
  call: Call,
): HttpAnswer | Promise<HttpAnswer> {
  validate(message);
  requireControlPoint(message.controlPoint);
  const described = describe(context, message, call);
  const verdict = judged(context.flowController, described.flow, message.request?.refusal);
  return replyTo(verdict, call, (settled) => answer(context, described, settled, call));
}

/** A described request as a flow, and its labels. */
interface Described {
  readonly flow: Flow;
  readonly labels: RequestLabels;
}

function describe(context: OperationContext, message: CheckHttpRequest, call: Call): Described {
  const http = message.request ?? new DescribedRequest();
  http.source = message.source;
  http.destination = message.destination;
  const services = findServices(context.serviceLookup, message.destination?.address ?? "");
  const labels = new RequestLabels(
    http,
    http.headers,
    message.request === undefined ? "none" : "described",
    servicesLabel(findServices(context.serviceLookup, message.source?.address ?? "")),
    servicesLabel(services),
    context.flowController.observer,
    context.baggageTrust,
  );
  const { controlPoint, rampMode, expectEnd } = message;
  const { deadline, peer } = call;
  const carried = { controlPoint, services, labels, http, peer, rampMode, expectEnd, deadline };
  return { flow: { type: "http", ...carried }, labels };
}

function answer(
  context: OperationContext,
  { flow, labels }: Described,
  verdict: Verdict,
  call: Call,
): HttpAnswer {
  replyHeaders(verdict, call);
  return httpAnswer(flow, labels, verdict, context.labelNames);
}

/** A message that was not read. */
const UNREAD: CheckHttpRequest = {
  controlPoint: "",
  source: undefined,
  destination: undefined,
  request: undefined,
  rampMode: false,
  expectEnd: false,
};

/**
 * Refuses a request whose description is too large, in most cases because of its body, or which is not framed as its
 * header section says: gateways that pass on their client's `transfer-encoding` send a body without chunks. That is a
 * decision and no error, because it is the described request's sender who controls it, and gateways let requests pass
 * on errors.
 */
export function unreadCheckHttp(context: OperationContext): NonNullable<Route["unread"]> {
  return (call, refusal) => {
    const described = describe(context, UNREAD, call);
    const verdict = context.flowController.refuse(described.flow, refusal);
    return jsonReply(context.jsonWriter.checkHttp(answer(context, described, verdict, call)));
  };
}

export function checkHttpBinary(context: OperationContext): UnaryHandler {
  return (message, call) =>
    andThen(checkHttp(context, readCheckHttpRequest(message, context.headerNames), call), (reply) =>
      context.protobufWriter.writeCheckHttp(reply),
    );
}

export function checkHttpJson(context: OperationContext): HttpHandler {
  const spares = new SpareChecks(() => new JsonCheck(context));
  return ({ body }, call) => {
    const check = spares.take();
    if (!check.begin(body, call)) {
      spares.put(check);
      return checkHttpParsed(context, body, call);
    }
    const verdict = context.flowController.judge(check);
    if (verdict instanceof Pending) {
      check.http.copyBytes();
      return replyWhenSettled(verdict, call, (settled) => {
        const reply = jsonReply(check.reply(settled, call, false));
        spares.put(check);
        return reply;
      });
    }
    if (verdict.held !== undefined) call.releaseIfUndelivered(verdict.held);
    const reply = jsonReply(check.reply(verdict, call, call.copiesReply === true));
    spares.put(check);
    return reply;
  };
}

/** The slower way, for bodies of any valid form: parses them into objects. */
function checkHttpParsed(context: OperationContext, body: Uint8Array, call: Call) {
  return andThen(
    checkHttp(
      context,
      checkHttpFromJson(
        body,
        context.headerNames,
        context.bounds.max_json_depth,
        context.unknownMember,
      ),
      call,
    ),
    (reply) => jsonReply(context.jsonWriter.checkHttp(reply)),
  );
}
