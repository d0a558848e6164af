// What a proxy's access log tells about flows that are over: durations for flux meters, and that their
// concurrency slots are free. The decision travels in the record, so nothing is remembered between the two.

import { Fault } from "#base/fault.ts";
import type { SlotRef } from "#flow/end.ts";
import { type LoggedDecision, readLoggedDecision } from "#wire/logged-decision.ts";
import type { LogAttributes } from "#wire/otlp-logs.ts";
import type { FluxMeters } from "./flux-meter.ts";
import type { Sink, Source } from "./metrics-table.ts";

/** What became of a record; all but the first are set aside. */
const RESULTS = ["taken", "unknown_source", "no_decision", "bad_decision"] as const;
type Result = (typeof RESULTS)[number];

const SOURCE = "aperture.source";
const DECISION = "aperture.check_response";
const STATUS_CODE = "http.status_code";
const STATUS = "aperture.flow.status";
/** What a proxy writes where it knows no value. */
const MISSING = "-";

/** Each digit can be read in one way only, so that no text costs more than its length. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** Far more than any number that a program writes. */
const LONGEST_NUMBER = 64;

export class AccessLog implements Source {
  readonly #meters: FluxMeters;
  readonly #end: (slots: readonly SlotRef[]) => void;
  readonly #records = new Map<Result, number>();

  /** `end` gives back the slots of flows whose callers do not end them. */
  constructor(meters: FluxMeters, end: (slots: readonly SlotRef[]) => void) {
    this.#meters = meters;
    this.#end = end;
  }

  /** Takes one record in; false when it was set aside, which is counted. */
  take(record: LogAttributes): boolean {
    const result = this.#take(record);
    this.#records.set(result, (this.#records.get(result) ?? 0) + 1);
    return result === "taken";
  }

  #take(record: LogAttributes): Result {
    // Middleware and SDKs tell of their flows by spans, which have other attributes.
    if (record.get(SOURCE) !== "envoy") return "unknown_source";
    const text = textOf(record, DECISION);
    if (text === "") return "no_decision";
    const decision = decisionOf(text);
    if (decision === undefined) return "bad_decision";
    const statusCode = textOf(record, STATUS_CODE);
    this.#meters.observe(decision.fluxMeters, {
      accepted: decision.accepted,
      statusCode,
      status: /^[123]/.test(statusCode) ? "OK" : textOf(record, STATUS) || "Error",
      number: (attribute) => numberOf(record, attribute),
    });
    if (!decision.expectEnd && decision.slots.length > 0) this.#end(decision.slots);
    return "taken";
  }

  collect(to: Sink): void {
    for (const result of RESULTS) {
      const count = this.#records.get(result);
      if (count !== undefined) to.number("sluice_access_log_records_total", [result], count);
    }
  }
}

function decisionOf(text: string): LoggedDecision | undefined {
  try {
    return readLoggedDecision(text);
  } catch (thrown) {
    if (thrown instanceof Fault) return undefined;
    throw thrown;
  }
}

/** Any attribute of the record, or one that is derived from it. Durations in ms, lengths in bytes. */
function numberOf(record: LogAttributes, attribute: string): number | undefined {
  switch (attribute) {
    case "flow_duration_ms":
      return own(record, "RESPONSE_DURATION");
    case "workload_duration_ms":
      return workloadDuration(record);
    // The proxy's counts are from its own point of view: it received the request.
    case "http.request_content_length":
      return own(record, "BYTES_RECEIVED");
    case "http.response_content_length":
      return own(record, "BYTES_SENT");
    default:
      return own(record, attribute);
  }
}

/** Until the first byte of the response, without the check. Only what is above 0 says that there was one. */
function workloadDuration(record: LogAttributes): number | undefined {
  const flow = own(record, "RESPONSE_DURATION");
  const check = own(record, "authz_duration");
  if (flow === undefined || check === undefined || flow <= check) return undefined;
  return flow - check;
}

function own(record: LogAttributes, attribute: string): number | undefined {
  const value = record.get(attribute);
  const number = typeof value === "string" ? parsed(value) : value;
  return number !== undefined && Number.isFinite(number) ? number : undefined;
}

function parsed(text: string): number | undefined {
  return text.length <= LONGEST_NUMBER && DECIMAL.test(text) ? Number(text) : undefined;
}

/** Empty when it is missing. */
function textOf(record: LogAttributes, attribute: string): string {
  const value = String(record.get(attribute) ?? "");
  return value === MISSING ? "" : value;
}
