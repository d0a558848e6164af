// The door for code that knows its labels itself: the SDKs' Check, in binary and in JSON.

import type { Flow } from "#flow/flow.ts";
import type { LabelKey, LabelSource, LabelVisitor, Origin } from "#flow/label.ts";
import type { Call, HttpHandler, UnaryHandler } from "#serve/handler.ts";
import { type CacheLookup, type CheckRequest, readCheckRequest } from "#wire/check-request.ts";
import type { CacheAnswer, CacheReply, CheckReply } from "#wire/check-response.ts";
import { checkFromJson } from "#wire/json-request.ts";
import { andThen, answer, DECISION_ID, type Door, requireControlPoint } from "./door.ts";
import { jsonReply } from "./json-door.ts";
import { checkReply } from "./reply.ts";
import { findCounted } from "./services.ts";

/** Labels as an SDK claims them. All go to telemetry. */
class Claims implements LabelSource {
  readonly #labels: ReadonlyMap<string, string>;

  constructor(labels: ReadonlyMap<string, string>) {
    this.#labels = labels;
  }

  get({ name }: LabelKey): string | undefined {
    return this.#labels.get(name);
  }

  origin({ name }: LabelKey): Origin | undefined {
    return this.#labels.has(name) ? "claim" : undefined;
  }

  each(visit: LabelVisitor): void {
    for (const [name, value] of this.#labels) visit(name, value, true, "claim");
  }
}

const NO_CACHE: CacheAnswer = { missed: true, error: "no cache is served" };

/** Callers that ask for cached values are told, key by key, that there are none. */
function cacheReply(lookup: CacheLookup | undefined): CacheReply | undefined {
  if (lookup === undefined) return undefined;
  return {
    result: lookup.resultKey === "" ? undefined : NO_CACHE,
    global: new Map(lookup.globalKeys.map((key) => [key, NO_CACHE])),
  };
}

/** Judges a feature flow, whatever tongue it came in. */
function check(door: Door, message: CheckRequest, call: Call): CheckReply | Promise<CheckReply> {
  requireControlPoint(message.controlPoint);
  const flow: Flow = {
    controlPoint: message.controlPoint,
    type: "feature",
    services: findCounted(door.lookup, call.peer, door.mind.observer),
    labels: new Claims(message.labels),
    http: undefined,
    rampMode: message.rampMode,
    expectEnd: message.expectEnd,
    deadline: call.deadline,
  };
  return answer(door.mind.judge(flow), call, (verdict) => {
    call.reply(DECISION_ID, door.nextId());
    return checkReply(flow, verdict, cacheReply(message.cacheLookup));
  });
}

export function checkBinary(door: Door): UnaryHandler {
  return (message, call) =>
    andThen(check(door, readCheckRequest(message), call), (reply) => door.proto.writeCheck(reply));
}

export function checkJson(door: Door): HttpHandler {
  return ({ body }, call) =>
    andThen(check(door, checkFromJson(body), call), (reply) => jsonReply(door.json.check(reply)));
}
