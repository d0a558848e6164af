// Counts of the flows of each workload at the scheduler of one component. Labels choose workloads, and each becomes a
// few series, so their number is bounded.

import type { Decision } from "#flow/flow.ts";
import type { ScheduledFlow } from "#flow/observer.ts";
import type { MetricSink, Summary } from "../../metrics/table.ts";

/** Further workloads are counted together. */
const MAX_WORKLOADS = 100;
const LONGEST_WORKLOAD = 128;
const OTHER = "_other";

const TYPES = ["DECISION_TYPE_ACCEPTED", "DECISION_TYPE_REJECTED"] as const;

interface Total {
  sum: number;
  count: number;
}

/** Tokens by which flows overtook earlier ones or were overtaken. */
class Preemption {
  readonly preempted: Total = { sum: 0, count: 0 };
  readonly delayed: Total = { sum: 0, count: 0 };
  onTime = 0;

  add(tokens: number): void {
    if (tokens > 0) add(this.preempted, tokens);
    else if (tokens < 0) add(this.delayed, -tokens);
    else this.onTime += 1;
  }
}

interface WorkloadRow {
  /** Accepted, accepted and dropped, rejected, rejected and dropped. */
  readonly requests: Float64Array;
  readonly queued: Total;
  readonly latency: Total;
  readonly preemption: Preemption;
  readonly fairness: Preemption;
}

export class WorkloadCounts {
  readonly #workloads = new Map<string, WorkloadRow>();
  #accepted = 0;
  #rejected = 0;
  #waiting = 0;

  decided({ detail, dropped }: Decision, accepted: boolean): void {
    const { requests } = this.#row("workload" in detail ? detail.workload : OTHER);
    const at = (accepted ? 0 : 2) + (dropped ? 1 : 0);
    requests[at] = (requests[at] ?? 0) + 1;
  }

  queued(): void {
    this.#waiting += 1;
  }

  scheduled(flow: ScheduledFlow): void {
    if (flow.queued) this.#waiting -= 1;
    const { tokens, passed, waitedMs, preempted, preemptedInWorkload } = flow;
    if (passed) this.#accepted += tokens;
    else this.#rejected += tokens;
    const row = this.#row(flow.workload);
    add(row.queued, waitedMs);
    if (preempted !== undefined) row.preemption.add(preempted);
    if (preemptedInWorkload !== undefined) row.fairness.add(preemptedInWorkload);
  }

  /** Adds the time that the service needed for a flow of the workload. */
  completed(workload: string, latencyMs: number): void {
    add(this.#row(workload).latency, latencyMs);
  }

  /** `component`: the values of the labels that name it. */
  collect(to: MetricSink, component: readonly string[]): void {
    const all = this.#accepted + this.#rejected;
    if (all > 0) {
      to.number("incoming_tokens_total", component, all);
      to.number("accepted_tokens_total", component, this.#accepted);
      to.number("rejected_tokens_total", component, this.#rejected);
    }
    if (all > 0 || this.#waiting > 0) {
      to.number("sluice_scheduler_waiting_flows", component, this.#waiting);
    }
    for (const [workload, row] of this.#workloads) collectRow(to, [...component, workload], row);
  }

  #row(workload: string): WorkloadRow {
    const known = this.#workloads.get(workload);
    if (known !== undefined) return known;
    const fits = workload.length <= LONGEST_WORKLOAD && workload.isWellFormed();
    const room = this.#workloads.size < MAX_WORKLOADS && fits;
    if (!room && workload !== OTHER) return this.#row(OTHER);
    const row = {
      requests: new Float64Array(4),
      queued: { sum: 0, count: 0 },
      latency: { sum: 0, count: 0 },
      preemption: new Preemption(),
      fairness: new Preemption(),
    };
    this.#workloads.set(workload, row);
    return row;
  }
}

function collectRow(to: MetricSink, labels: readonly string[], row: WorkloadRow): void {
  const [policyName = "", policyHash = "", componentId = "", workload = ""] = labels;
  for (const [at, count] of row.requests.entries()) {
    if (count === 0) continue;
    const type = TYPES[at < 2 ? 0 : 1];
    const dropped = String(at % 2 === 1);
    to.number(
      "workload_requests_total",
      [policyName, policyHash, componentId, workload, type, dropped],
      count,
    );
  }
  const { preemption, fairness } = row;
  const totals = [
    ["workload_latency_ms", row.latency],
    ["request_in_queue_duration_ms", row.queued],
    ["workload_preempted_tokens", preemption.preempted],
    ["workload_delayed_tokens", preemption.delayed],
    ["fairness_preempted_tokens", fairness.preempted],
    ["fairness_delayed_tokens", fairness.delayed],
  ] as const;
  for (const [name, total] of totals) {
    if (total.count > 0) to.summary(name, labels, summaryOf(total));
  }
  if (preemption.onTime > 0) to.number("workload_on_time_total", labels, preemption.onTime);
  if (fairness.onTime > 0) to.number("fairness_on_time_total", labels, fairness.onTime);
}

/** Without quantiles, which could not be added up over agents. */
function summaryOf({ sum, count }: Total): Summary {
  return { quantiles: [], values: [], sum, count };
}

function add(total: Total, value: number): void {
  total.sum += value;
  total.count += 1;
}
