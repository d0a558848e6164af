// The agent in virtual time: the real rulebook, limiters and meters, which receive the same bytes that a controller
// writes to a store.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Flow, Pending, SlotRef, Verdict } from "#flow/flow.ts";
import { createFlowController, type FlowController } from "#flow/flow-controller.ts";
import { inventoryOf } from "#flow/inventory.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { StoreUpdate } from "#store/store.ts";
import { readBatch } from "#sync/follow/batch.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import type { MetricSample } from "#telemetry/metrics/samples.ts";
import type { RequestEnd } from "./service.ts";

/** Maximum number of keys of a limiter; the default of a real agent. */
const MAX_KEYS = 100_000;

interface VirtualAgentOptions {
  readonly group: string;
  readonly clock: Clock;
  readonly chance: Chance;
}

export class VirtualAgent {
  readonly #group: string;
  readonly #book: Rulebook;
  readonly #flowController: FlowController;
  readonly #decisions: FlowMetrics;
  readonly #meters = new FluxMeters();
  readonly #metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: false,
  });

  constructor({ group, clock, chance }: VirtualAgentOptions) {
    this.#group = group;
    this.#decisions = new FlowMetrics({ agent_group: group });
    const context = { clock, chance, observer: this.#decisions, maxKeys: MAX_KEYS };
    this.#book = new Rulebook(group, context);
    this.#flowController = createFlowController(this.#book, context);
    this.#metrics.add(this.#decisions);
    this.#metrics.add(this.#meters);
  }

  /** Applies a change of the store. Returns the reasons why entries were not applied, by store key. */
  apply(batch: StoreUpdate): ReadonlyMap<string, string> {
    const { rules, numbers, notRun, faults } = readBatch(this.#group, batch);
    const notApplied = new Map(notRun);
    for (const [key, fault] of faults) notApplied.set(key, fault.message);
    for (const { key, fault } of this.#book.apply({ rules, numbers }))
      notApplied.set(key, fault.message);
    if (rules.size > 0) this.#keepSeries();
    return notApplied;
  }

  /** True if any rule applies at this control point. */
  hasRulesAt(controlPoint: string): boolean {
    return this.#book.plan.controlPoints.has(controlPoint);
  }

  /** Checks one flow. */
  judge(flow: Flow): Verdict | Pending<Verdict> {
    return this.#flowController.judge(flow);
  }

  /** Ends an accepted flow: frees its slots, settles what it took, and records its durations. */
  completed(flow: Flow, verdict: Verdict, { latencyMs, workloadMs, answered }: RequestEnd): void {
    const slots = verdict.decisions.flatMap(slotOf);
    if (slots.length > 0) this.#flowController.end(slots);
    const { reservationId } = verdict;
    if (reservationId !== "") {
      const status = answered ? 200 : 503;
      this.#flowController.settle({ reservationId, cost: undefined, status });
    }
    this.#decisions.ended(flow.controlPoint);
    for (const decision of verdict.decisions) {
      const workload = workloadOf(decision);
      if (workload !== undefined) this.#decisions.completed(workload, workloadMs);
    }
    this.#meters.observe(verdict.fluxMeters, {
      accepted: true,
      statusCode: answered ? "200" : "503",
      status: answered ? "OK" : "Error",
      number(attribute) {
        if (attribute === "workload_duration_ms") return workloadMs;
        return attribute === "flow_duration_ms" ? latencyMs : undefined;
      },
    });
  }

  /** The samples that a scrape at this moment would store. */
  samples(wanted: (name: string) => boolean): Iterable<MetricSample> {
    return this.#metrics.samples(wanted);
  }

  #keepSeries(): void {
    const inventory = inventoryOf(this.#book);
    this.#decisions.keep(inventory);
    this.#meters.keep(inventory.fluxMeters);
  }
}

function slotOf({ component, detail }: Verdict["decisions"][number]): SlotRef[] {
  if (!("requestId" in detail) || detail.requestId === "") return [];
  const { policyName, policyHash, componentId } = component;
  const { label, requestId, consumed } = detail;
  return [{ policyName, policyHash, componentId, label, requestId, tokens: consumed }];
}

/** The workload to which a scheduler counted a flow. */
function workloadOf({ component, detail }: Verdict["decisions"][number]) {
  if (!("workload" in detail) || detail.workload === "") return undefined;
  const { policyName, policyHash, componentId } = component;
  return { policyName, policyHash, componentId, workload: detail.workload };
}
