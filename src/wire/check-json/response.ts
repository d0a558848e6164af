// Replies of the JSON endpoints as canonical protobuf JSON: proto field names, every field present, null for unset
// messages, only the set member of a oneof, int64 as text.

import { STATUS_NAMES } from "#base/http/status.ts";
import { cutText } from "#base/text/cut.ts";
import {
  type DetailWriter,
  detailWriter,
  KEY_MISSING,
  missingLabels,
} from "../check/decisions/limiter-details.ts";
import type { ReportedComponent, ReportedDecision } from "../check/decisions/reported-decision.ts";
import { DENIED_CODE, type HttpAnswer, METADATA_KEY } from "../check/http-reply.ts";
import {
  type CacheAnswer,
  type CacheReply,
  type CheckReply,
  CheckResponseWriter,
  type FlowEndReply,
  type ReportedClassifier,
  type TelemetryWriter,
} from "../check/response.ts";
import { fragment, JsonWriter } from "../json/writer.ts";

const REJECT_REASONS = [
  "REJECT_REASON_NONE",
  "REJECT_REASON_RATE_LIMITED",
  "REJECT_REASON_NO_TOKENS",
  "REJECT_REASON_NOT_SAMPLED",
  "REJECT_REASON_NO_MATCHING_RAMP",
] as const;

const CLASSIFIER_ERRORS = [
  "ERROR_NONE",
  "ERROR_EVAL_FAILED",
  "ERROR_EMPTY_RESULTSET",
  "ERROR_AMBIGUOUS_RESULTSET",
  "ERROR_MULTI_EXPRESSION",
  "ERROR_EXPRESSION_NOT_MAP",
] as const;

/** Start of nearly every reply. */
const BEGIN = fragment(
  '{"status":{"code":0,"message":"","details":[]},"ok_response":{"headers":{},"dynamic_metadata":null},"check_response":{"start":',
);
/** In nearly every check: what stands between the telemetry labels and the decisions, and after the decisions. */
const PASSES = fragment(
  '},"decision_type":"DECISION_TYPE_ACCEPTED","reject_reason":"REJECT_REASON_NONE","classifier_infos":[],"flux_meter_infos":[],"limiter_decisions":[',
);
const ENDS = fragment(
  '],"wait_time":null,"denied_response_status_code":"Empty","cache_lookup_response":null,"expect_end":false}',
);

/** Fixed parts of all other replies. */
const ACCEPTED = fragment(
  '{"status":{"code":0,"message":"","details":[]},"ok_response":{"headers":{',
);
const BAGGAGE = fragment('"baggage":');
const NO_METADATA = fragment('},"dynamic_metadata":null}');
const DENIED = fragment(`{"status":{"code":${DENIED_CODE},"message":`);
const DENIED_RESPONSE = fragment(',"details":[]},"denied_response":{"status":');
const DENIED_HEADERS = fragment(',"headers":{');
const NO_BODY = fragment('},"body":""}');
const CHECK = fragment(',"check_response":{"start":');
const METADATA = fragment(`,"dynamic_metadata":{"${METADATA_KEY}":"`);
const METADATA_END = fragment('"}}');

const START = fragment('{"start":');
const END = fragment(',"end":');
const SERVICES = fragment(',"services":[');
const NO_SERVICES = fragment(',"services":[],"control_point":');
const CONTROL_POINT = fragment('],"control_point":');
const KEYS = fragment(',"flow_label_keys":');
const TELEMETRY = fragment(',"telemetry_flow_labels":{');
const TYPE_ACCEPTED = fragment('},"decision_type":"DECISION_TYPE_ACCEPTED","reject_reason":');
const TYPE_REJECTED = fragment('},"decision_type":"DECISION_TYPE_REJECTED","reject_reason":');
const CLASSIFIERS = fragment(',"classifier_infos":[');
const METERS = fragment('],"flux_meter_infos":[');
const DECISIONS = fragment('],"limiter_decisions":[');
const WAIT = fragment('],"wait_time":');
const NULL = fragment("null");
const DENIED_STATUS = fragment(',"denied_response_status_code":');
const CACHE = fragment(',"cache_lookup_response":');
const EXPECT_END = fragment(',"expect_end":true');
const EXPECT_NO_END = fragment(',"expect_end":false');
const RESERVATION = fragment(',"reservation_id":');

const DROPPED = fragment(',"dropped":true,"reason":"LIMITER_REASON_');
const PASSED = fragment(',"dropped":false,"reason":"LIMITER_REASON_');

/** Labels for telemetry that are copied from the request without making strings of them. */
export interface JsonTelemetryWriter extends TelemetryWriter {
  /** Members of an object, at least one. */
  writeTelemetryJson(out: JsonWriter): void;
}

/** An enum's name, or its number where it has none. */
function enumJson(name: string | undefined, number: number): string {
  return name === undefined ? String(number) : `"${name}"`;
}

function statusJson(status: number): string {
  return enumJson(STATUS_NAMES[status], status);
}

/** The encoded parts of a component that never change. */
interface KnownComponent {
  /** Up to the wait, for a decision that passes and has its key. */
  readonly usual: Buffer;
  /** Up to the component's id. */
  readonly names: Buffer;
  /** From the reason's end to the wait. */
  readonly status: Buffer;
  /** From the wait to the label. */
  readonly info: Buffer;
  readonly detail: DetailWriter;
}

/** Writes replies. Keeps the encoded form of what does not change about components, classifiers and the current second. */
export class JsonAnswerWriter {
  readonly #components = new WeakMap<ReportedComponent, KnownComponent>();
  readonly #classifiers = new WeakMap<ReportedClassifier, Buffer>();
  readonly #binary = new CheckResponseWriter();
  readonly #out = new JsonWriter();

  /** A CheckHTTPResponse. `telemetry` has labels besides those of the check. With `lent` it is valid until the next write. */
  checkHttp(answer: HttpAnswer, telemetry?: JsonTelemetryWriter, lent = false): Buffer {
    const out = this.#out;
    out.reset();
    const { check, baggage } = answer;
    if (check.accepted && baggage === undefined) out.raw(BEGIN);
    else {
      if (!check.accepted) this.#denied(answer);
      else this.#accepted(baggage ?? "");
      out.raw(CHECK);
    }
    this.#check(check, telemetry);
    out.raw(METADATA);
    out.base64(this.#binary.write(check, telemetry));
    out.raw(METADATA_END);
    return out.take(lent);
  }

  #accepted(baggage: string): void {
    const out = this.#out;
    out.raw(ACCEPTED);
    out.raw(BAGGAGE);
    out.text(baggage);
    out.raw(NO_METADATA);
  }

  /** Only the set member of the oneof: to some clients the other would look set if it were named, too. */
  #denied({ deniedStatus, refusal, retryAfter }: HttpAnswer): void {
    const out = this.#out;
    out.raw(DENIED);
    out.text(refusal);
    out.raw(DENIED_RESPONSE);
    out.double(deniedStatus);
    out.raw(DENIED_HEADERS);
    if (retryAfter > 0) out.literal(`"retry-after":"${retryAfter}"`);
    out.raw(NO_BODY);
  }

  /** CheckResponse. */
  check(reply: CheckReply): Buffer {
    this.#out.reset();
    this.#out.raw(START);
    this.#check(reply, undefined);
    return this.#out.take(false);
  }

  /** A check from the value of `start` on. */
  #check(reply: CheckReply, telemetry: JsonTelemetryWriter | undefined): void {
    const out = this.#out;
    out.time(reply.start);
    out.raw(END);
    out.time(reply.end);
    this.#services(reply.services);
    out.text(reply.controlPoint);
    out.raw(KEYS);
    out.raw(reply.keys.json);
    this.#telemetry(reply.telemetry, telemetry);
    this.#outcome(reply);
    this.#decisions(reply.decisions);
    const { waitMs, deniedStatus, cache, expectEnd, reservationId } = reply;
    const usual = waitMs <= 0 && deniedStatus === 0 && cache === undefined && !expectEnd;
    if (usual && reservationId === "") out.raw(ENDS);
    else this.#ends(reply);
  }

  #ends({ waitMs, deniedStatus, cache, expectEnd, reservationId }: CheckReply): void {
    const out = this.#out;
    out.raw(WAIT);
    if (waitMs > 0) out.duration(waitMs);
    else out.raw(NULL);
    out.raw(DENIED_STATUS);
    out.literal(statusJson(deniedStatus));
    out.raw(CACHE);
    if (cache === undefined) out.raw(NULL);
    else out.raw(fragment(cacheJson(cache)));
    out.raw(expectEnd ? EXPECT_END : EXPECT_NO_END);
    if (reservationId !== "") {
      out.raw(RESERVATION);
      out.text(reservationId);
    }
    out.literal("}");
  }

  #services(services: readonly string[]): void {
    const out = this.#out;
    if (services.length === 0) {
      out.raw(NO_SERVICES);
      return;
    }
    out.raw(SERVICES);
    for (let at = 0; at < services.length; at++) {
      if (at > 0) out.literal(",");
      out.text(services[at] ?? "");
    }
    out.raw(CONTROL_POINT);
  }

  #telemetry(pairs: readonly string[], own: JsonTelemetryWriter | undefined): void {
    const out = this.#out;
    out.raw(TELEMETRY);
    own?.writeTelemetryJson(out);
    for (let at = 0; at < pairs.length; at += 2) {
      if (at > 0 || own !== undefined) out.literal(",");
      out.text(pairs[at] ?? "");
      out.literal(":");
      out.text(cutText(pairs[at + 1] ?? ""));
    }
  }

  /** Decision type, reject reason, classifiers and flux meters. */
  #outcome({ accepted, reason, classifiers, fluxMeters }: CheckReply): void {
    const out = this.#out;
    if (accepted && reason === 0 && classifiers.length === 0 && fluxMeters.length === 0) {
      out.raw(PASSES);
      return;
    }
    out.raw(accepted ? TYPE_ACCEPTED : TYPE_REJECTED);
    out.literal(enumJson(REJECT_REASONS[reason], reason));
    out.raw(CLASSIFIERS);
    for (let at = 0; at < classifiers.length; at++) {
      const classifier = classifiers[at];
      if (classifier === undefined) continue;
      if (at > 0) out.literal(",");
      out.raw(this.#classifier(classifier));
    }
    out.raw(METERS);
    for (let at = 0; at < fluxMeters.length; at++) {
      out.literal(at > 0 ? ',{"flux_meter_name":' : '{"flux_meter_name":');
      out.text(fluxMeters[at] ?? "");
      out.literal("}");
    }
    out.raw(DECISIONS);
  }

  #decisions(decisions: readonly ReportedDecision[]): void {
    for (let at = 0; at < decisions.length; at++) {
      const decision = decisions[at];
      if (decision === undefined) continue;
      if (at > 0) this.#out.literal(",");
      this.#decision(decision);
    }
  }

  #decision(decision: ReportedDecision): void {
    const out = this.#out;
    const { component, failure } = decision;
    const { usual, names, status, info, detail } = this.#component(component);
    const keyMissing = (decision.missing & KEY_MISSING) !== 0;
    if (!decision.dropped && !keyMissing) out.raw(usual);
    else {
      out.raw(names);
      out.raw(decision.dropped ? DROPPED : PASSED);
      out.literal(keyMissing ? "KEY_NOT_FOUND" : "UNSPECIFIED");
      out.raw(status);
    }
    if (decision.waitMs >= 0) out.duration(decision.waitMs);
    else out.raw(NULL);
    out.raw(info);
    out.text(decision.detail.label);
    detail.writeJson(out, decision.detail);
    out.literal("}");
    if (failure !== undefined) out.literal(`,"failure_mode":"${failure}"`);
    if (decision.missing > KEY_MISSING) {
      out.literal(`,"missing_labels":"${missingLabels(decision.missing)}"`);
    }
    out.literal("}");
  }

  #component(component: ReportedComponent): KnownComponent {
    const known = this.#components.get(component);
    if (known !== undefined) return known;
    const { policyName, policyHash, componentId, deniedStatus, kind } = component;
    const names = fragment(
      `{"policy_name":${text(policyName)},"policy_hash":${text(policyHash)},` +
        `"component_id":${text(componentId)}`,
    );
    const status = fragment(
      `","denied_response_status_code":${statusJson(deniedStatus)},"wait_time":`,
    );
    const detail = detailWriter(kind);
    const info = fragment(`,"${detail.name}":{"${detail.labelName ?? "label"}":`);
    const usual = Buffer.concat([names, PASSED, Buffer.from("UNSPECIFIED"), status]);
    const made = { usual, names, status, info, detail };
    this.#components.set(component, made);
    return made;
  }

  #classifier(classifier: ReportedClassifier): Buffer {
    const known = this.#classifiers.get(classifier);
    if (known !== undefined) return known;
    const { unreadable: why } = classifier;
    const unreadable = why === undefined ? "" : `,"unreadable":${text(why)}`;
    const made = fragment(
      `{"policy_name":${text(classifier.policyName)},` +
        `"policy_hash":${text(classifier.policyHash)},` +
        `"classifier_index":"${classifier.classifierIndex}",` +
        `"error":${enumJson(CLASSIFIER_ERRORS[classifier.error], classifier.error)}${unreadable}}`,
    );
    this.#classifiers.set(classifier, made);
    return made;
  }
}

const text: (value: string) => string = JSON.stringify;

function doubleJson(value: number): string {
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

function cacheJson({ result, global }: CacheReply): string {
  const entries = [...global].map(([key, answer]) => `${text(key)}:${answerJson(answer)}`);
  const first = result === undefined ? "null" : answerJson(result);
  return `{"result_cache_response":${first},"global_cache_responses":{${entries.join(",")}}}`;
}

function answerJson({ missed, error }: CacheAnswer): string {
  return (
    `{"value":"","lookup_status":"${missed ? "MISS" : "HIT"}",` +
    `"operation_status":"${error === "" ? "SUCCESS" : "ERROR"}","error":${text(error)}}`
  );
}

/** FlowEndResponse. */
export function flowEndJson({ slots, settlement }: FlowEndReply): string {
  const items = slots.map(({ ref, returned, error }) => {
    const of =
      `{"policy_name":${text(ref.policyName)},"policy_hash":${text(ref.policyHash)},` +
      `"component_id":${text(ref.componentId)},"label":${text(ref.label)},` +
      `"request_id":${text(ref.requestId)},"tokens":${doubleJson(ref.tokens)}}`;
    return `{"inflight_request_ref":${of},"returned":${returned},"error":${text(error)}}`;
  });
  const why =
    settlement && settlement.error !== "" ? `,"settlement_error":${text(settlement.error)}` : "";
  const settled = settlement && `,"settled":${settlement.settled}${why}`;
  return `{"token_return_statuses":[${items.join(",")}]${settled ?? ""}}`;
}
