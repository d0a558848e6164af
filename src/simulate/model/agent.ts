// The agent in virtual time: the real rulebook, the real limiters and the real meters, fed through the same
// bytes that a controller leaves in a store.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { SlotRef } from "#flow/end.ts";
import type { Flow, Pending, Verdict } from "#flow/flow.ts";
import { type Mind, mindOf } from "#flow/mind.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { readBatch } from "#store/rules.ts";
import type { Batch } from "#store/store.ts";
import { FlowMetrics } from "#telemetry/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flux-meter.ts";
import { Metrics } from "#telemetry/metrics.ts";
import type { MetricSample } from "#telemetry/metrics-samples.ts";

/** As many keys as an agent tells apart unless told otherwise. */
const MAX_KEYS = 100_000;

export interface AgentWorld {
  readonly group: string;
  readonly clock: Clock;
  readonly chance: Chance;
}

export class VirtualAgent {
  readonly #group: string;
  readonly #book: Rulebook;
  readonly #mind: Mind;
  readonly #decisions: FlowMetrics;
  readonly #meters = new FluxMeters();
  readonly #metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: false,
  });

  constructor({ group, clock, chance }: AgentWorld) {
    this.#group = group;
    this.#decisions = new FlowMetrics({ agent_group: group });
    const world = { clock, chance, observer: this.#decisions, maxKeys: MAX_KEYS };
    this.#book = new Rulebook(group, world);
    this.#mind = mindOf(this.#book, world);
    this.#metrics.add(this.#decisions);
    this.#metrics.add(this.#meters);
  }

  /** Takes a change of the store in; gives what could not be taken, in words, by key. */
  take(batch: Batch): ReadonlyMap<string, string> {
    const { rules, numbers, notRun, faults } = readBatch(this.#group, batch);
    const odd = new Map(notRun);
    for (const [key, fault] of faults) odd.set(key, fault.message);
    for (const { key, fault } of this.#book.apply({ rules, numbers })) odd.set(key, fault.message);
    if (rules.size > 0) this.#keep();
    return odd;
  }

  /** Whether any rule speaks at this control point. */
  knows(controlPoint: string): boolean {
    return this.#book.plan.points.has(controlPoint);
  }

  judge(flow: Flow): Verdict | Pending<Verdict> {
    return this.#mind.judge(flow);
  }

  over(flow: Flow, verdict: Verdict, latencyMs: number, answered: boolean): void {
    const slots = verdict.decisions.flatMap(slotOf);
    if (slots.length > 0) this.#mind.end(slots);
    this.#decisions.ended(flow.controlPoint);
    this.#meters.observe(verdict.fluxMeters, {
      accepted: true,
      statusCode: answered ? "200" : "503",
      status: answered ? "OK" : "Error",
      number: (attribute) => (DURATIONS.has(attribute) ? latencyMs : undefined),
    });
  }

  /** What a scrape at this moment would store. */
  samples(wanted: (name: string) => boolean): Iterable<MetricSample> {
    return this.#metrics.samples(wanted);
  }

  #keep(): void {
    const book = this.#book;
    const points = [...book.plan.points.values()];
    const rules = [...book.rules.values()];
    this.#decisions.keep({
      components: points.flatMap(({ limiters }) => limiters.map(({ component }) => component)),
      classifiers: rules.flatMap((rule) =>
        rule.kind === "classifier" ? [{ ...rule, classifierIndex: rule.index }] : [],
      ),
      controlPoints: book.plan.points.keys(),
    });
    this.#meters.keep(rules.filter((rule) => rule.kind === "flux_meter"));
  }
}

/** Attributes that the model knows: nothing but the service takes time. */
const DURATIONS: ReadonlySet<string> = new Set(["workload_duration_ms", "flow_duration_ms"]);

function slotOf({
  component,
  label,
  requestId,
  consumed,
}: Verdict["decisions"][number]): SlotRef[] {
  if (requestId === "") return [];
  const { policyName, policyHash, componentId } = component;
  return [{ policyName, policyHash, componentId, label, requestId, tokens: consumed }];
}
