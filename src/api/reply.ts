// From a verdict to what a door says: label keys, telemetry labels, statuses. Everything is final before it
// is encoded, so that the copy of the check response in the metadata says the same as the reply around it.

import type { Flow, Verdict } from "#flow/flow.ts";
import { type CacheReply, type CheckReply, KeyList } from "#wire/check-response.ts";
import type { HttpAnswer } from "#wire/http-answer.ts";
import { injectBaggage } from "./baggage.ts";
import type { RequestLabels, Shapes } from "./request-labels.ts";

export const TYPE_LABEL = "aperture.control_point_type";

const NO_KEYS = new KeyList([]);
const NO_PAIRS: readonly string[] = [];

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

/** A reply in the making. One may be filled again and again by a door that writes it at once. */
class Reply implements CheckReply {
  start = 0;
  end = 0;
  services: readonly string[] = [];
  controlPoint = "";
  keys = NO_KEYS;
  telemetry: readonly string[] = [];
  accepted = false;
  reason = 0;
  classifiers: Verdict["classifiers"] = [];
  fluxMeters: readonly string[] = [];
  decisions: Verdict["decisions"] = [];
  waitMs = 0;
  deniedStatus = 0;
  cache: CacheReply | undefined;
  expectEnd = false;

  fill(flow: Flow, verdict: Verdict, labels: ReplyLabels): this {
    this.start = verdict.start;
    this.end = verdict.end;
    this.services = flow.services;
    this.controlPoint = flow.controlPoint;
    this.keys = labels.keys;
    this.telemetry = labels.telemetry;
    this.accepted = verdict.accepted;
    this.reason = verdict.reason;
    this.classifiers = verdict.classifiers;
    this.fluxMeters = verdict.fluxMeters;
    this.decisions = verdict.decisions;
    this.deniedStatus = verdict.deniedStatus;
    this.expectEnd = flow.expectEnd;
    return this;
  }
}

/** Reply of the plain check: the caller reads wait time and status itself. */
export function checkReply(
  flow: Flow,
  verdict: Verdict,
  cache: CacheReply | undefined,
): CheckReply {
  const reply = new Reply().fill(flow, verdict, allLabels(flow, verdict));
  reply.waitMs = verdict.waitMs;
  reply.cache = cache;
  return reply;
}

/** Reply of an HTTP door: the wait becomes a header and leaves the check response. */
export function httpAnswer(
  flow: Flow,
  labels: RequestLabels,
  verdict: Verdict,
  shapes: Shapes,
): HttpAnswer {
  const reply = requestLabels(flow, verdict, labels, shapes);
  return new Answer().fill(flow, labels, verdict, reply);
}

/** What an HTTP door answers. One may be filled again and again by a door that writes it at once. */
export class Answer implements HttpAnswer {
  readonly check = new Reply();
  deniedStatus = 0;
  retryAfter = 0;
  baggage: string | undefined;
  /** Whether the request's own labels are to write themselves: they are not in the check. */
  own = false;

  /** The same as `httpAnswer`, for a request whose own labels write themselves. */
  inPlace(flow: Flow, labels: RequestLabels, verdict: Verdict, shapes: Shapes): this {
    const keys = ownKeys(verdict, labels, shapes);
    this.own = keys !== undefined;
    const reply = keys === undefined ? allLabels(flow, verdict) : { keys, telemetry: NO_PAIRS };
    return this.fill(flow, labels, verdict, reply);
  }

  fill(flow: Flow, labels: RequestLabels, verdict: Verdict, reply: ReplyLabels): this {
    const { accepted } = verdict;
    this.check.fill(flow, verdict, reply);
    this.deniedStatus = accepted ? 0 : verdict.deniedStatus || FORBIDDEN;
    this.retryAfter = accepted ? 0 : Math.ceil(verdict.waitMs / 1_000);
    this.baggage = accepted ? newBaggage(labels, verdict) : undefined;
    return this;
  }
}

/** The header with what classifiers made for telemetry; undefined when there is nothing of that. */
function newBaggage(labels: RequestLabels, verdict: Verdict): string | undefined {
  if (verdict.labels.madeCount === 0) return undefined;
  const made = [...verdict.labels.made()].filter(({ telemetry }) => telemetry);
  return made.length === 0 ? undefined : injectBaggage(labels.baggageHeader, made);
}
