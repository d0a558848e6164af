// Processes reports of finished flows, which proxies send as an access log and SDKs as spans: they give flux meters the
// durations of flows, and free the concurrency slots of those flows. A report carries the decision, or the id of its
// request, by which the agent that made the decision finds it.

import { Fault } from "#base/fault.ts";
import {
  type FlowEnd,
  Pending,
  SETTLEMENTS,
  type Settlement,
  type SlotRef,
  type SlotReturn,
} from "#flow/flow.ts";
import { MAX_LABEL_NUMBER } from "#flow/label.ts";
import type { HttpLogEntry } from "#wire/access-log/entry.ts";
import type { Unread } from "#wire/access-log/message.ts";
import {
  type LoggedDecision,
  type LoggedWorkload,
  readLoggedDecision,
} from "#wire/check/logged-decision.ts";
import { loggedDecisionFromJson } from "#wire/check-json/logged-decision.ts";
import type { Attributes } from "#wire/otlp/records.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";
import { LoggedEntry } from "./access-log-entry.ts";
import { type FlowReport, numberOf, type Source } from "./flow-report.ts";
import type { FluxMeters } from "./flux-meter.ts";
import { reportOfRecord } from "./otlp-record.ts";
import type { UnreportedFlows } from "./unreported-flows.ts";

/** Outcomes of processing a record; only `taken` ones are used. */
const RESULTS = [
  "taken",
  "unknown_source",
  "no_decision",
  "bad_decision",
  "unknown_request",
  "unfinished",
  "tcp",
  "too_large",
  "malformed",
  "too_many",
] as const;
type Result = (typeof RESULTS)[number];

const WORKLOAD_DURATION = "workload_duration_ms";
/** The tokens that the flow cost, where its limiters settle estimates. */
const COST = "sluice.cost";

/** Counter of the latencies of workloads. */
export interface WorkloadLatencies {
  completed(workload: LoggedWorkload, latencyMs: number): void;
}

/** Frees the slots of a flow whose caller does not end it. */
export type EndOfFlow = (
  slots: readonly SlotRef[],
) => readonly SlotReturn[] | Pending<readonly SlotReturn[]>;

export class FinishedFlows implements MetricSource {
  readonly #meters: FluxMeters;
  readonly #end: EndOfFlow;
  readonly #unreported: Pick<UnreportedFlows, "reported" | "take" | "takeCheck">;
  readonly #records = new Map<Result, number>();
  readonly #workloads: WorkloadLatencies | undefined;
  readonly #settle: (end: FlowEnd) => Settlement;
  readonly #entry = new LoggedEntry();
  readonly #slots = { returned: 0, unknown: 0 };
  readonly #settlements: Record<Settlement, number> = { settled: 0, unknown: 0, elsewhere: 0 };
  #badNumbers = 0;

  /** `workloads` gets the time that the service needed, and `settle` the cost of the flow. */
  constructor(
    meters: FluxMeters,
    end: EndOfFlow,
    unreported: Pick<UnreportedFlows, "reported" | "take" | "takeCheck">,
    workloads?: WorkloadLatencies,
    settle: (end: FlowEnd) => Settlement = () => "unknown",
  ) {
    this.#workloads = workloads;
    this.#settle = settle;
    this.#meters = meters;
    this.#end = end;
    this.#unreported = unreported;
  }

  /**
   * Processes one record of OpenTelemetry; false when it is not usable, which is counted by reason. The span of a flow for
   * which an SDK got no decision is not a mistake of its sender.
   */
  consume(record: Attributes): boolean {
    const report = reportOfRecord(record);
    const result = report === undefined ? "unknown_source" : this.#outcome(report);
    this.#count(result);
    return result === "taken" || (result === "no_decision" && report?.source !== "envoy");
  }

  /** Processes one entry of Envoy's gRPC access log, which is counted by what becomes of it. */
  entry(entry: HttpLogEntry): void {
    this.#count(entry.isFinal ? this.#outcome(this.#entry.of(entry)) : "unfinished");
  }

  /** Counts an entry that cannot be processed. */
  unread(why: Unread): void {
    this.#count(why);
  }

  #count(result: Result): void {
    this.#records.set(result, (this.#records.get(result) ?? 0) + 1);
  }

  #outcome(report: FlowReport): Result {
    const decision = this.#decisionOf(report);
    if (typeof decision === "string") return decision;
    const { accepted, slots, workloads, expectEnd } = decision;
    const bad = () => {
      this.#badNumbers++;
    };
    this.#measure(report, decision, bad);
    if (!expectEnd && decision.reservationId !== "") this.#settleCost(report, decision, bad);
    // A refused flow holds no slot, although its decision names those that it asked for.
    if (!accepted) return "taken";
    if (!expectEnd && slots.length > 0) this.#return(slots);
    if (workloads.length === 0) return "taken";
    const latencyMs = numberOf(report, WORKLOAD_DURATION, bad);
    if (latencyMs === undefined) return "taken";
    for (const workload of workloads) this.#workloads?.completed(workload, latencyMs);
    return "taken";
  }

  /** The decision about the flow, or the reason why there is none. */
  #decisionOf(report: FlowReport): LoggedDecision | Result {
    const { decision, source } = report;
    if (decision === "") {
      const { requestId } = report;
      if (requestId === "") return "no_decision";
      return this.#unreported.take(requestId, report.controlPoint) ?? "unknown_request";
    }
    if (source === "envoy") this.#unreported.reported();
    const read = readDecision(decision, source);
    return read === undefined ? "bad_decision" : this.#completed(read);
  }

  /** The decision with the slots and the estimate that it does not name, because the SDK's messages have no place for them. */
  #completed(read: LoggedDecision): LoggedDecision {
    const { accepted, check, expectEnd, slots, reservationId } = read;
    if (!accepted || check === undefined || expectEnd) return read;
    if (slots.length > 0 || reservationId !== "") return read;
    const found = this.#unreported.takeCheck(check);
    if (found === undefined) return read;
    return { ...read, slots: found.slots, reservationId: found.reservationId };
  }

  #measure(report: FlowReport, { accepted, fluxMeters }: LoggedDecision, bad: () => void): void {
    if (fluxMeters.length === 0) return;
    const { statusCode } = report;
    this.#meters.observe(fluxMeters, {
      accepted,
      statusCode,
      status: /^[123]/.test(statusCode) ? "OK" : report.status || "Error",
      number: (attribute) => numberOf(report, attribute, bad),
    });
  }

  #settleCost(report: FlowReport, { reservationId }: LoggedDecision, bad: () => void): void {
    const cost = numberOf(report, COST, bad);
    const known = cost !== undefined && cost >= 0 && cost <= MAX_LABEL_NUMBER;
    if (!known && report.has(COST)) bad();
    const status = Number(report.statusCode) || 0;
    const end = { reservationId, cost: known ? cost : undefined, status };
    this.#settlements[this.#settle(end)]++;
  }

  #return(slots: readonly SlotRef[]): void {
    const ended = this.#end(slots);
    const count = (returns: readonly SlotReturn[]) => {
      for (const { returned } of returns) this.#slots[returned ? "returned" : "unknown"]++;
    };
    if (!(ended instanceof Pending)) count(ended);
    // A slot whose owner cannot be asked stays taken until it expires.
    else ended.whenSettled(count, () => count(slots.map(() => ({ returned: false, error: "" }))));
  }

  collect(to: MetricSink): void {
    for (const result of RESULTS) {
      const count = this.#records.get(result);
      if (count !== undefined) to.number("sluice_access_log_records_total", [result], count);
    }
    for (const [result, count] of Object.entries(this.#slots))
      if (count > 0) to.number("sluice_reported_slots_total", [result], count);
    for (const result of SETTLEMENTS) {
      const count = this.#settlements[result];
      if (count > 0) to.number("sluice_reported_settlements_total", [result], count);
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
