// Reads the records of a proxy's access log: they give flux meters the durations of flows that have ended, and free
// the concurrency slots of those flows. The record carries the decision, so nothing is kept between check and record.

import { Fault } from "#base/fault.ts";
import type { SlotRef } from "#flow/flow.ts";
import { type LoggedDecision, readLoggedDecision } from "#wire/check/logged-decision.ts";
import type { LogAttributes } from "#wire/protobuf/otlp-logs.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";
import type { FluxMeters } from "./flux-meter.ts";

/** Outcomes of processing a record; only `taken` ones are used. */
const RESULTS = ["taken", "unknown_source", "no_decision", "bad_decision"] as const;
type Result = (typeof RESULTS)[number];

const SOURCE = "aperture.source";
const DECISION = "aperture.check_response";
const STATUS_CODE = "http.status_code";
const STATUS = "aperture.flow.status";
/** The text that a proxy writes for an unknown value. */
const MISSING = "-";

/** Unambiguous, so that matching takes time linear in the length of the text. */
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** Longer than any number that a program writes. */
const MAX_NUMBER_LENGTH = 64;

export class AccessLog implements MetricSource {
  readonly #meters: FluxMeters;
  readonly #end: (slots: readonly SlotRef[]) => void;
  readonly #records = new Map<Result, number>();

  /** `end` frees the slots of flows whose callers do not end them. */
  constructor(meters: FluxMeters, end: (slots: readonly SlotRef[]) => void) {
    this.#meters = meters;
    this.#end = end;
  }

  /** Processes one record; false when it is not usable, which is counted by reason. */
  consume(record: LogAttributes): boolean {
    const result = this.#outcome(record);
    this.#records.set(result, (this.#records.get(result) ?? 0) + 1);
    return result === "taken";
  }

  #outcome(record: LogAttributes): Result {
    // Middleware and SDKs report their flows as spans, which have other attributes.
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

  collect(to: MetricSink): void {
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

/** An attribute of the record, or one derived from it. Durations in ms, lengths in bytes. */
function numberOf(record: LogAttributes, attribute: string): number | undefined {
  switch (attribute) {
    case "flow_duration_ms":
      return own(record, "RESPONSE_DURATION");
    case "workload_duration_ms":
      return workloadDuration(record);
    // The proxy counts from its own point of view: it received the request.
    case "http.request_content_length":
      return own(record, "BYTES_RECEIVED");
    case "http.response_content_length":
      return own(record, "BYTES_SENT");
    default:
      return own(record, attribute);
  }
}

/** Time to the first byte of the response without the check, ms. Undefined unless it is above 0. */
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
  return text.length <= MAX_NUMBER_LENGTH && DECIMAL.test(text) ? Number(text) : undefined;
}

/** The attribute as text; empty when it is missing. */
function textOf(record: LogAttributes, attribute: string): string {
  const value = String(record.get(attribute) ?? "");
  return value === MISSING ? "" : value;
}
