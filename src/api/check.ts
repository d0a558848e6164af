// FlowControlService/Check, for callers that know their labels themselves, such as the SDKs: in protobuf and in
// JSON.

import type { Call, HttpHandler, Route, UnaryHandler } from "#base/handler.ts";
import type { Flow, Verdict } from "#flow/flow.ts";
import type { LabelKey, LabelOrigin, LabelSource, LabelVisitor } from "#flow/label.ts";
import { type CacheLookup, type CheckRequest, readCheckRequest } from "#wire/check/request.ts";
import type { CacheAnswer, CacheReply, CheckReply } from "#wire/check/response.ts";
import { checkFromJson } from "#wire/check-json/request.ts";
import {
  type OperationContext,
  REFUSAL_HEADER,
  replyHeaders,
  requireControlPoint,
} from "./context.ts";
import { findPeerServices } from "./labels/services.ts";
import { checkReply } from "./reply/check-reply.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { andThen, judged, replyTo } from "./reply/verdict.ts";

/** Labels as the caller states them. All of them go to telemetry. */
class CheckLabels implements LabelSource {
  readonly #labels: ReadonlyMap<string, string>;

  constructor(labels: ReadonlyMap<string, string>) {
    this.#labels = labels;
  }

  get({ name }: LabelKey): string | undefined {
    return this.#labels.get(name);
  }

  origin({ name }: LabelKey): LabelOrigin | undefined {
    return this.#labels.has(name) ? "claim" : undefined;
  }

  each(visit: LabelVisitor): void {
    for (const [name, value] of this.#labels) visit(name, value, true, "claim");
  }
}

const NO_CACHE: CacheAnswer = { missed: true, error: "no cache is served" };

/** Answers every requested cache key with a miss and an error, because there are no caches yet. */
function cacheReply(lookup: CacheLookup | undefined): CacheReply | undefined {
  if (lookup === undefined) return undefined;
  return {
    result: lookup.resultKey === "" ? undefined : NO_CACHE,
    global: new Map(lookup.globalKeys.map((key) => [key, NO_CACHE])),
  };
}

/** Judges a feature flow, in whichever encoding its message came. */
function check(
  context: OperationContext,
  message: CheckRequest,
  call: Call,
): CheckReply | Promise<CheckReply> {
  requireControlPoint(message.controlPoint);
  const flow = flowOf(context, message, call);
  return replyTo(judged(context.flowController, flow, message.refusal), call, (verdict) =>
    answer(flow, verdict, message, call),
  );
}

function flowOf(context: OperationContext, message: CheckRequest, call: Call): Flow {
  return {
    controlPoint: message.controlPoint,
    type: "feature",
    services: findPeerServices(context.serviceLookup, call.peer, context.flowController.observer),
    labels: new CheckLabels(message.labels),
    http: undefined,
    peer: call.peer,
    rampMode: message.rampMode,
    expectEnd: message.expectEnd,
    deadline: call.deadline,
  };
}

function answer(
  flow: Flow,
  verdict: Verdict,
  { cacheLookup }: CheckRequest,
  call: Call,
): CheckReply {
  replyHeaders(verdict, call);
  // CheckResponse has no member for it.
  if (verdict.refusal !== undefined) call.reply(REFUSAL_HEADER, verdict.refusal.why);
  return checkReply(flow, verdict, cacheReply(cacheLookup));
}

/** A message that was not read. */
const UNREAD: CheckRequest = {
  controlPoint: "",
  labels: new Map(),
  refusal: undefined,
  rampMode: false,
  expectEnd: false,
  cacheLookup: undefined,
};

/** As for CheckHTTP: the labels of a flow come from requests, and SDKs let requests pass on errors. */
export function unreadCheck(context: OperationContext): NonNullable<Route["unread"]> {
  return (call, refusal) => {
    const flow = flowOf(context, UNREAD, call);
    const verdict = context.flowController.refuse(flow, refusal);
    return jsonReply(context.jsonWriter.check(answer(flow, verdict, UNREAD, call)));
  };
}

export function checkBinary(context: OperationContext): UnaryHandler {
  return (message, call) =>
    andThen(check(context, readCheckRequest(message, context.bounds.max_labels), call), (reply) =>
      context.protobufWriter.writeCheck(reply),
    );
}

export function checkJson(context: OperationContext): HttpHandler {
  const { unknownMember, jsonWriter } = context;
  const { max_json_depth, max_labels } = context.bounds;
  return ({ body }, call) => {
    const message = checkFromJson(body, max_json_depth, max_labels, unknownMember);
    return andThen(check(context, message, call), (reply) => jsonReply(jsonWriter.check(reply)));
  };
}
