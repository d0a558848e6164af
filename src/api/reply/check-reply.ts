// Turns a verdict into the content of a reply: label keys, telemetry labels, statuses. Everything is final before it is
// encoded, so that the copy of the check response in the metadata agrees with the reply around it.

import type { Flow, Verdict } from "#flow/flow.ts";
import type { HttpAnswer } from "#wire/check/http-reply.ts";
import { type CacheReply, type CheckReply, KeyList } from "#wire/check/response.ts";
import { TYPE_LABEL } from "../labels/attributes.ts";
import type { LabelNameCache } from "../labels/label-name-cache.ts";
import type { RequestLabels } from "../labels/request-labels.ts";

const NO_KEYS = new KeyList([]);
const NO_PAIRS: readonly string[] = [];

/** HTTP status of a refusal for which neither component nor stage defines one: a flow in ramp mode without a load ramp. */
const FORBIDDEN = 403;

/** Labels of a reply: the sorted names of all, and alternating names and values of those for telemetry. */
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
  return { keys: new KeyList(keys.sort(), true), telemetry };
}

/**
 * Like `allLabels`, without visiting each label. Undefined if classifiers set labels. Telemetry labels are only those of
 * baggage, because the request writes its own without making strings.
 */
function requestLabels(
  { labels: all }: Verdict,
  labels: RequestLabels,
  cache: LabelNameCache,
): ReplyLabels | undefined {
  const { keys, hasBaggage } = labels.names(cache);
  if (all.classifierLabelCount > 0) return undefined;
  if (!hasBaggage) return { keys, telemetry: NO_PAIRS };
  const names: string[] = [];
  const telemetry: string[] = [];
  for (const [name, value] of labels.shownBaggage()) {
    if (all.classified.has(name)) continue;
    names.push(name);
    telemetry.push(name, value);
  }
  return { keys: keys.with(names), telemetry };
}

/** The content of a check response. The object can be filled again after its reply has been written. */
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
  reservationId = "";

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
    this.reservationId = verdict.reservationId;
    return this;
  }
}

/** The reply to Check, whose callers read wait time and status from the check response. */
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

/** The reply to a check of an HTTP request: the wait time is in a header and not in the check response. */
export function httpAnswer(
  flow: Flow,
  labels: RequestLabels,
  verdict: Verdict,
  cache: LabelNameCache,
): HttpAnswer {
  const own = requestLabels(verdict, labels, cache);
  if (own === undefined) {
    return new ReusableAnswer().fill(flow, labels, verdict, allLabels(flow, verdict));
  }
  const telemetry = [...labels.telemetry(), ...own.telemetry, TYPE_LABEL, flow.type];
  return new ReusableAnswer().fill(flow, labels, verdict, { keys: own.keys, telemetry });
}

/** The reply to a check of an HTTP request. The object can be filled again after it has been written. */
export class ReusableAnswer implements HttpAnswer {
  readonly check = new Reply();
  deniedStatus = 0;
  refusal = "";
  retryAfter = 0;
  baggage: string | undefined;
  /** True if the request writes its own telemetry labels: those in `check` are the ones of its baggage. */
  telemetryApart = false;

  /** Like `httpAnswer`, for a request that writes its own telemetry labels. */
  inPlace(flow: Flow, labels: RequestLabels, verdict: Verdict, cache: LabelNameCache): this {
    const own = requestLabels(verdict, labels, cache);
    this.telemetryApart = own !== undefined;
    return this.fill(flow, labels, verdict, own ?? allLabels(flow, verdict));
  }

  fill(flow: Flow, labels: RequestLabels, verdict: Verdict, reply: ReplyLabels): this {
    const { accepted } = verdict;
    this.check.fill(flow, verdict, reply);
    this.deniedStatus = accepted ? 0 : verdict.deniedStatus || FORBIDDEN;
    this.refusal = accepted ? "" : (verdict.refusal?.why ?? "");
    this.retryAfter = accepted ? 0 : Math.ceil(verdict.waitMs / 1_000);
    this.baggage = accepted ? newBaggage(labels, verdict) : undefined;
    return this;
  }
}

/** The baggage header with the telemetry labels of classifiers; undefined when there are none. */
function newBaggage(labels: RequestLabels, verdict: Verdict): string | undefined {
  if (verdict.labels.classifierLabelCount === 0) return undefined;
  const made = [...verdict.labels.classifierLabels()].filter(({ telemetry }) => telemetry);
  return made.length === 0 ? undefined : labels.newBaggage(made);
}
