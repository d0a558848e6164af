// The answers of the JSON doors as canonical protobuf JSON: proto names, every field present, null for
// unset messages, of a oneof only the set member, int64 as text.

import { STATUS_NAMES } from "#base/http-status.ts";
import type {
  CacheAnswer,
  CacheReply,
  CheckReply,
  ReportedClassifier,
  ReportedComponent,
  ReportedDecision,
  ReturnStatus,
} from "./check-response.ts";
import { splitMs } from "./check-response.ts";
import { DENIED_CODE, type HttpAnswer, METADATA_KEY } from "./http-answer.ts";

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

const INFO_NAME = {
  rate_limiter: "rate_limiter_info",
  sampler: "sampler_info",
  ramp_sampler: "sampler_info",
  concurrency_limiter: "concurrency_limiter_info",
} as const;

/** An enum's name, or its number where it has none. */
function enumJson(name: string | undefined, number: number): string {
  return name === undefined ? String(number) : `"${name}"`;
}

function statusJson(status: number): string {
  return enumJson(STATUS_NAMES[status], status);
}

/** Nine digits of a second as 0, 3, 6 or 9 decimals. */
function fraction(nanos: number): string {
  if (nanos === 0) return "";
  const digits = String(nanos).padStart(9, "0");
  if (digits.endsWith("000000")) return `.${digits.slice(0, 3)}`;
  return digits.endsWith("000") ? `.${digits.slice(0, 6)}` : `.${digits}`;
}

function durationJson(ms: number): string {
  const { seconds, nanos } = splitMs(ms);
  return `"${seconds}${fraction(nanos)}s"`;
}

function doubleJson(value: number): string {
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

const text: (value: string) => string = JSON.stringify;

function list<T>(items: readonly T[], item: (one: T) => string): string {
  return `[${items.map(item).join(",")}]`;
}

/** Writes answers; keeps what does not change about components, classifiers and the current second. */
export class JsonAnswerWriter {
  readonly #components = new WeakMap<ReportedComponent, string>();
  readonly #classifiers = new WeakMap<ReportedClassifier, string>();
  #second = Number.NaN;
  #secondText = "";

  /** CheckHTTPResponse. `encoded` is the check response in base64. */
  checkHttp(answer: HttpAnswer, encoded: string): string {
    const { check } = answer;
    const code = check.accepted ? 0 : DENIED_CODE;
    return (
      `{"status":{"code":${code},"message":"","details":[]},${arm(answer)},` +
      `"check_response":${this.check(check)},` +
      `"dynamic_metadata":{"${METADATA_KEY}":"${encoded}"}}`
    );
  }

  /** CheckResponse. */
  check(reply: CheckReply): string {
    return (
      `{"start":${this.#time(reply.start)},"end":${this.#time(reply.end)},` +
      `"services":${textList(reply.services)},"control_point":${text(reply.controlPoint)},` +
      `"flow_label_keys":${reply.keys.json},` +
      `"telemetry_flow_labels":${telemetryJson(reply.telemetry)},` +
      `"decision_type":"DECISION_TYPE_${reply.accepted ? "ACCEPTED" : "REJECTED"}",` +
      `"reject_reason":${enumJson(REJECT_REASONS[reply.reason], reply.reason)},` +
      `"classifier_infos":${list(reply.classifiers, (one) => this.#classifier(one))},` +
      `"flux_meter_infos":${list(reply.fluxMeters, meterJson)},` +
      `"limiter_decisions":${list(reply.decisions, (one) => this.#decision(one))},` +
      `"wait_time":${reply.waitMs > 0 ? durationJson(reply.waitMs) : "null"},` +
      `"denied_response_status_code":${statusJson(reply.deniedStatus)},` +
      `"cache_lookup_response":${reply.cache === undefined ? "null" : cacheJson(reply.cache)},` +
      `"expect_end":${reply.expectEnd}}`
    );
  }

  #time(ms: number): string {
    const { seconds, nanos } = splitMs(ms);
    if (seconds !== this.#second) {
      this.#second = seconds;
      this.#secondText = new Date(seconds * 1_000).toISOString().slice(0, -5);
    }
    return `"${this.#secondText}${fraction(nanos)}Z"`;
  }

  #decision(decision: ReportedDecision): string {
    const { component } = decision;
    const reason = decision.keyMissing ? "KEY_NOT_FOUND" : "UNSPECIFIED";
    const wait = decision.waitMs >= 0 ? durationJson(decision.waitMs) : "null";
    const failure = decision.failure === undefined ? "" : `,"failure_mode":"${decision.failure}"`;
    return (
      `{${this.#component(component)},"dropped":${decision.dropped},` +
      `"reason":"LIMITER_REASON_${reason}",` +
      `"denied_response_status_code":${statusJson(component.deniedStatus)},` +
      `"wait_time":${wait},"${INFO_NAME[component.kind]}":${infoJson(decision)}${failure}}`
    );
  }

  #component(component: ReportedComponent): string {
    const known = this.#components.get(component);
    if (known !== undefined) return known;
    const made =
      `"policy_name":${text(component.policyName)},"policy_hash":${text(component.policyHash)},` +
      `"component_id":${text(component.componentId)}`;
    this.#components.set(component, made);
    return made;
  }

  #classifier(classifier: ReportedClassifier): string {
    const known = this.#classifiers.get(classifier);
    if (known !== undefined) return known;
    const made =
      `{"policy_name":${text(classifier.policyName)},` +
      `"policy_hash":${text(classifier.policyHash)},` +
      `"classifier_index":"${classifier.classifierIndex}",` +
      `"error":${enumJson(CLASSIFIER_ERRORS[classifier.error], classifier.error)}}`;
    this.#classifiers.set(classifier, made);
    return made;
  }
}

/** The set member of the oneof; naming the other one too would look set to some clients. */
function arm({ check, baggage, deniedStatus, retryAfter }: HttpAnswer): string {
  if (check.accepted) {
    const headers = baggage === undefined ? "{}" : `{"baggage":${text(baggage)}}`;
    return `"ok_response":{"headers":${headers},"dynamic_metadata":null}`;
  }
  const headers = retryAfter > 0 ? `{"retry-after":"${retryAfter}"}` : "{}";
  return `"denied_response":{"status":${deniedStatus},"headers":${headers},"body":""}`;
}

function textList(items: readonly string[]): string {
  return items.length === 0 ? "[]" : JSON.stringify(items);
}

function telemetryJson(pairs: readonly string[]): string {
  let made = "{";
  for (let at = 0; at < pairs.length; at += 2) {
    if (at > 0) made += ",";
    made += `${text(pairs[at] ?? "")}:${text(pairs[at + 1] ?? "")}`;
  }
  return `${made}}`;
}

function meterJson(name: string): string {
  return `{"flux_meter_name":${text(name)}}`;
}

function infoJson(decision: ReportedDecision): string {
  const label = text(decision.label);
  const { kind } = decision.component;
  if (kind === "sampler" || kind === "ramp_sampler") return `{"label":${label}}`;
  const tokens =
    `{"remaining":${doubleJson(decision.remaining)},"current":${doubleJson(decision.current)},` +
    `"consumed":${doubleJson(decision.consumed)}}`;
  const id = kind === "concurrency_limiter" ? `,"request_id":${text(decision.requestId)}` : "";
  return `{"label":${label},"tokens_info":${tokens}${id}}`;
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
export function flowEndJson(statuses: readonly ReturnStatus[]): string {
  return `{"token_return_statuses":${list(statuses, ({ ref, returned, error }) => {
    const of =
      `{"policy_name":${text(ref.policyName)},"policy_hash":${text(ref.policyHash)},` +
      `"component_id":${text(ref.componentId)},"label":${text(ref.label)},` +
      `"request_id":${text(ref.requestId)},"tokens":${doubleJson(ref.tokens)}}`;
    return `{"inflight_request_ref":${of},"returned":${returned},"error":${text(error)}}`;
  })}}`;
}
