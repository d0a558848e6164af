// From a verdict to what a door says: label keys, telemetry labels, statuses. Everything is final before it
// is encoded, so that the copy of the check response in the metadata says the same as the reply around it.

import type { Flow, Verdict } from "#flow/flow.ts";
import { type CacheReply, type CheckReply, KeyList } from "#wire/check-response.ts";
import type { HttpAnswer } from "#wire/http-answer.ts";
import { injectBaggage } from "./baggage.ts";
import type { RequestLabels, Shapes } from "./request-labels.ts";

const TYPE_LABEL = "aperture.control_point_type";

/** HTTP status of a refusal where neither component nor stage names one: a ramp flow without a ramp. */
const FORBIDDEN = 403;

/** Labels of a reply: sorted names of all, and those for telemetry as names and values in turn. */
interface ReplyLabels {
  readonly keys: KeyList;
  readonly telemetry: readonly string[];
}

function allLabels(flow: Flow, verdict: Verdict): ReplyLabels {
  const keys: string[] = [];
  const telemetry: string[] = [];
  verdict.labels.each((name, value, shown) => {
    keys.push(name);
    if (shown && name !== TYPE_LABEL) telemetry.push(name, value);
  });
  telemetry.push(TYPE_LABEL, flow.type);
  return { keys: new KeyList(keys.sort()), telemetry };
}

/** The same without asking for each label, where the request's own are all there is. */
function requestLabels(
  flow: Flow,
  verdict: Verdict,
  labels: RequestLabels,
  shapes: Shapes,
): ReplyLabels {
  const keys = ownKeys(verdict, labels, shapes);
  if (keys === undefined) return allLabels(flow, verdict);
  const telemetry = labels.telemetry();
  telemetry.push(TYPE_LABEL, flow.type);
  return { keys, telemetry };
}

/** Label keys where the request's own are all there is. Asked for in any case: collisions are counted there. */
function ownKeys(verdict: Verdict, labels: RequestLabels, shapes: Shapes): KeyList | undefined {
  const keys = labels.keys(shapes);
  return verdict.labels.madeCount > 0 ? undefined : keys;
}

function compose(
  flow: Flow,
  verdict: Verdict,
  labels: ReplyLabels,
  waitMs: number,
  cache: CacheReply | undefined,
): CheckReply {
  return {
    start: verdict.start,
    end: verdict.end,
    services: flow.services,
    controlPoint: flow.controlPoint,
    keys: labels.keys,
    telemetry: labels.telemetry,
    accepted: verdict.accepted,
    reason: verdict.reason,
    classifiers: verdict.classifiers,
    fluxMeters: verdict.fluxMeters,
    decisions: verdict.decisions,
    waitMs,
    deniedStatus: verdict.deniedStatus,
    cache,
    expectEnd: flow.expectEnd,
  };
}

/** Reply of the plain check: the caller reads wait time and status itself. */
export function checkReply(
  flow: Flow,
  verdict: Verdict,
  cache: CacheReply | undefined,
): CheckReply {
  return compose(flow, verdict, allLabels(flow, verdict), verdict.waitMs, cache);
}

/** Reply of an HTTP door: the wait becomes a header and leaves the check response. */
export function httpAnswer(
  flow: Flow,
  labels: RequestLabels,
  verdict: Verdict,
  shapes: Shapes,
): HttpAnswer {
  const reply = requestLabels(flow, verdict, labels, shapes);
  return answerWith(flow, labels, verdict, reply);
}

/** The same for a request whose own labels write themselves; `own` is false where strings say them all. */
export function proxyAnswer(
  flow: Flow,
  labels: RequestLabels,
  verdict: Verdict,
  shapes: Shapes,
): { readonly answer: HttpAnswer; readonly own: boolean } {
  const keys = ownKeys(verdict, labels, shapes);
  const own = keys !== undefined;
  const reply = own ? { keys, telemetry: TYPE_OF[flow.type] } : allLabels(flow, verdict);
  return { answer: answerWith(flow, labels, verdict, reply), own };
}

const TYPE_OF: Readonly<Record<Flow["type"], readonly string[]>> = {
  http: [TYPE_LABEL, "http"],
  feature: [TYPE_LABEL, "feature"],
};

function answerWith(
  flow: Flow,
  labels: RequestLabels,
  verdict: Verdict,
  reply: ReplyLabels,
): HttpAnswer {
  const check = compose(flow, verdict, reply, 0, undefined);
  if (verdict.accepted) {
    return { check, deniedStatus: 0, retryAfter: 0, baggage: newBaggage(labels, verdict) };
  }
  return {
    check,
    deniedStatus: verdict.deniedStatus || FORBIDDEN,
    retryAfter: Math.ceil(verdict.waitMs / 1_000),
    baggage: undefined,
  };
}

/** The header with what classifiers made for telemetry; undefined when there is nothing of that. */
function newBaggage(labels: RequestLabels, verdict: Verdict): string | undefined {
  if (verdict.labels.madeCount === 0) return undefined;
  const made = [...verdict.labels.made()].filter(({ telemetry }) => telemetry);
  return made.length === 0 ? undefined : injectBaggage(labels.baggageHeader, made);
}
