// FlowControlService/Check, for callers that know their labels themselves, such as the SDKs: in protobuf and in
// JSON.

import type { Call, HttpHandler, UnaryHandler } from "#base/handler.ts";
import type { Flow } from "#flow/flow.ts";
import type { LabelKey, LabelOrigin, LabelSource, LabelVisitor } from "#flow/label.ts";
import { type CacheLookup, type CheckRequest, readCheckRequest } from "#wire/check/request.ts";
import type { CacheAnswer, CacheReply, CheckReply } from "#wire/check/response.ts";
import { checkFromJson } from "#wire/check-json/request.ts";
import { DECISION_ID_HEADER, type OperationContext, requireControlPoint } from "./context.ts";
import { findServicesCounted } from "./labels/services.ts";
import { checkReply } from "./reply/check-reply.ts";
import { jsonReply } from "./reply/json-reply.ts";
import { andThen, replyTo } from "./reply/verdict.ts";

/** Labels as the caller states them. All of them go to telemetry. */
class ClaimedLabels implements LabelSource {
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
  const flow: Flow = {
    controlPoint: message.controlPoint,
    type: "feature",
    services: findServicesCounted(
      context.serviceLookup,
      call.peer,
      context.flowController.observer,
    ),
    labels: new ClaimedLabels(message.labels),
    http: undefined,
    rampMode: message.rampMode,
    expectEnd: message.expectEnd,
    deadline: call.deadline,
  };
  return replyTo(context.flowController.judge(flow), call, (verdict) => {
    call.reply(DECISION_ID_HEADER, context.nextDecisionId());
    return checkReply(flow, verdict, cacheReply(message.cacheLookup));
  });
}

export function checkBinary(context: OperationContext): UnaryHandler {
  return (message, call) =>
    andThen(check(context, readCheckRequest(message), call), (reply) =>
      context.protobufWriter.writeCheck(reply),
    );
}

export function checkJson(context: OperationContext): HttpHandler {
  return ({ body }, call) =>
    andThen(check(context, checkFromJson(body, context.bounds.max_json_depth), call), (reply) =>
      jsonReply(context.jsonWriter.check(reply)),
    );
}
