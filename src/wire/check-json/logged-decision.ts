// The decision in the span of an SDK: aperture.flowcontrol.check.v1.CheckResponse in JSON, as several libraries write it.
// Read leniently: names in either spelling, and enums as numbers or names. Members that are not needed may have any value.

import { Fault } from "#base/fault.ts";
import { SLOT_MEMBERS, WORKLOAD_MEMBERS } from "../check/decisions/limiter-details.ts";
import {
  type LoggedDecision,
  type LoggedWorkload,
  MAX_METERS,
  tooManyMeters,
} from "../check/logged-decision.ts";
import { type InflightRef, MAX_REFS, tooManyRefs } from "../check/request.ts";

/** Length of the text, in UTF-16 units. A decision has one or two thousand; its labels may be long. */
const MAX_LENGTH = 262_144;

/** Throws a Fault with INVALID_ARGUMENT when the text is not a JSON object or exceeds a bound. */
export function loggedDecisionFromJson(text: string): LoggedDecision {
  if (text.length > MAX_LENGTH)
    throw new Fault("INVALID_ARGUMENT", `wanted at most ${MAX_LENGTH} characters, got more`);
  const response = parsed(text);
  const decision = response("decision_type");
  const fluxMeters = new Set<string>();
  for (const info of listIn(response("flux_meter_infos")))
    fluxMeters.add(textOrEmpty(membersOf(info)("flux_meter_name")));
  if (fluxMeters.size > MAX_METERS) throw tooManyMeters();
  const decisions = listIn(response("limiter_decisions"));
  const slots = decisions.map(slotOf).filter(({ requestId }) => requestId !== "");
  const workloads = decisions.map(workloadOf).filter(({ workload }) => workload !== "");
  if (slots.length > MAX_REFS || workloads.length > MAX_REFS) throw tooManyRefs();
  return {
    accepted: decision !== 1 && decision !== "DECISION_TYPE_REJECTED",
    fluxMeters: [...fluxMeters],
    slots,
    workloads,
    expectEnd: response("expect_end") === true,
    reservationId: textOrEmpty(response("reservation_id")),
    check: {
      controlPoint: textOrEmpty(response("control_point")),
      startMs: Date.parse(textOrEmpty(response("start"))),
      endMs: Date.parse(textOrEmpty(response("end"))),
      labels: ownMembersOf(response("telemetry_flow_labels")),
    },
  };
}

/** Reads a member by its name in the proto file, or in camelCase. Own members only. */
type Members = (name: string) => unknown;

function parsed(text: string): Members {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault("INVALID_ARGUMENT", "wanted JSON, got other text");
  }
  return membersOf(value);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Reads a member by its name as it is. */
function ownMembersOf(value: unknown): Members {
  return (name) =>
    isObject(value) ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;
}

function membersOf(value: unknown): Members {
  if (!isObject(value)) return () => undefined;
  return (name) => {
    const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const key = Object.hasOwn(value, camel) ? camel : name;
    return Object.getOwnPropertyDescriptor(value, key)?.value;
  };
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/**
 * The workload to which the scheduler of a LimiterDecision assigned the flow; empty when another limiter
 * decided.
 */
function workloadOf(value: unknown): LoggedWorkload {
  const decision = membersOf(value);
  const member = WORKLOAD_MEMBERS.find(({ name }) => isObject(decision(name)));
  return {
    policyName: textOrEmpty(decision("policy_name")),
    policyHash: textOrEmpty(decision("policy_hash")),
    componentId: textOrEmpty(decision("component_id")),
    workload: textOrEmpty(membersOf(member && decision(member.name))("workload_index")),
  };
}

/** The slot that a LimiterDecision granted; the request id is empty when it granted none. */
function slotOf(value: unknown): InflightRef {
  const decision = membersOf(value);
  const member = SLOT_MEMBERS.find(({ name }) => isObject(decision(name)));
  const info = membersOf(member && decision(member.name));
  const consumed = membersOf(info("tokens_info"))("consumed");
  return {
    policyName: textOrEmpty(decision("policy_name")),
    policyHash: textOrEmpty(decision("policy_hash")),
    componentId: textOrEmpty(decision("component_id")),
    label: textOrEmpty(info("label")),
    requestId: textOrEmpty(info("request_id")),
    tokens: typeof consumed === "number" ? consumed : 0,
  };
}
