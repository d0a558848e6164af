// Reads the records of finished flows, which proxies send as an access log and SDKs as spans: they give flux meters the
// durations of flows, and free the concurrency slots of those flows. A record carries the decision, or the id of its
// request, by which the agent that made the decision finds it.

import { Fault } from "#base/fault.ts";
import type { SlotRef } from "#flow/flow.ts";
import {
  type LoggedDecision,
  type LoggedWorkload,
  readLoggedDecision,
} from "#wire/check/logged-decision.ts";
import { loggedDecisionFromJson } from "#wire/check-json/logged-decision.ts";
import type { Attributes } from "#wire/otlp/records.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";
import { numberOf, type Source, sourceOf, textOf } from "./flow-records.ts";
import type { FluxMeters } from "./flux-meter.ts";
import type { UnreportedFlows } from "./unreported-flows.ts";

/** Outcomes of processing a record; only `taken` ones are used. */
const RESULTS = [
  "taken",
  "unknown_source",
  "no_decision",
  "bad_decision",
  "unknown_request",
] as const;
type Result = (typeof RESULTS)[number];

const DECISION = "aperture.check_response";
const STATUS_CODE = "http.status_code";
const STATUS = "aperture.flow.status";
const REQUEST_ID = "x-request-id";
/** Tells flows of one request at several control points apart. */
const CONTROL_POINT = "aperture.control_point";

const WORKLOAD_DURATION = "workload_duration_ms";

/** Counter of the latencies of workloads. */
export interface WorkloadLatencies {
  completed(workload: LoggedWorkload, latencyMs: number): void;
}

export class FinishedFlows implements MetricSource {
  readonly #meters: FluxMeters;
  readonly #end: (slots: readonly SlotRef[]) => void;
  readonly #unreported: Pick<UnreportedFlows, "reported" | "take">;
  readonly #records = new Map<Result, number>();
  readonly #workloads: WorkloadLatencies | undefined;
  #badNumbers = 0;

  /** `end` frees the slots of flows whose callers do not end them. `workloads` learns how long the service needed. */
  constructor(
    meters: FluxMeters,
    end: (slots: readonly SlotRef[]) => void,
    unreported: Pick<UnreportedFlows, "reported" | "take">,
    workloads?: WorkloadLatencies,
  ) {
    this.#workloads = workloads;
    this.#meters = meters;
    this.#end = end;
    this.#unreported = unreported;
  }

  /**
   * Processes one record; false when it is not usable, which is counted by reason. The span of a flow for which an SDK
   * got no decision is no mistake of its sender.
   */
  consume(record: Attributes): boolean {
    const source = sourceOf(record);
    const result = source === undefined ? "unknown_source" : this.#outcome(record, source);
    this.#records.set(result, (this.#records.get(result) ?? 0) + 1);
    return result === "taken" || (result === "no_decision" && source !== "envoy");
  }

  #outcome(record: Attributes, source: Source): Result {
    const decision = this.#decisionOf(record, source);
    if (typeof decision === "string") return decision;
    this.#observe(record, source, decision);
    if (!decision.expectEnd && decision.slots.length > 0) this.#end(decision.slots);
    return "taken";
  }

  /** The decision about the flow, or why there is none. */
  #decisionOf(record: Attributes, source: Source): LoggedDecision | Result {
    const text = textOf(record, DECISION);
    if (text === "") {
      const id = textOf(record, REQUEST_ID);
      if (id === "") return "no_decision";
      return this.#unreported.take(id, textOf(record, CONTROL_POINT)) ?? "unknown_request";
    }
    if (source === "envoy") this.#unreported.reported();
    return readDecision(text, source) ?? "bad_decision";
  }

  #observe(record: Attributes, source: Source, decision: LoggedDecision): void {
    const statusCode = textOf(record, STATUS_CODE);
    const bad = () => {
      this.#badNumbers++;
    };
    this.#meters.observe(decision.fluxMeters, {
      accepted: decision.accepted,
      statusCode,
      status: /^[123]/.test(statusCode) ? "OK" : textOf(record, STATUS) || "Error",
      number: (attribute) => numberOf(record, source, attribute, bad),
    });
    if (!decision.accepted || decision.workloads.length === 0) return;
    const latencyMs = numberOf(record, source, WORKLOAD_DURATION, bad);
    if (latencyMs === undefined) return;
    for (const workload of decision.workloads) this.#workloads?.completed(workload, latencyMs);
  }

  collect(to: MetricSink): void {
    for (const result of RESULTS) {
      const count = this.#records.get(result);
      if (count !== undefined) to.number("sluice_access_log_records_total", [result], count);
    }
    if (this.#badNumbers > 0) to.number("sluice_bad_measurements_total", [], this.#badNumbers);
  }
}

/** SDKs write it in JSON, everyone else in base64. */
function readDecision(text: string, source: Source): LoggedDecision | undefined {
  try {
    const json = source === "sdk" && text.startsWith("{");
    return json ? loggedDecisionFromJson(text) : readLoggedDecision(text);
  } catch (thrown) {
    if (thrown instanceof Fault) return undefined;
    throw thrown;
  }
}
