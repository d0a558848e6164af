// One simulation run: services and their callers, the agent in front of them, and the circuits that control it, in
// virtual time. Equal seeds give equal runs.

import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { plain } from "#policy/document/tree.ts";
import type { QueryEngine, Sample } from "#promql/result.ts";
import type { SampleStore } from "#promql/samples.ts";
import { agentPrefixes } from "#sync/follow/batch.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { VirtualAgent } from "../model/agent.ts";
import { chanceOf } from "../model/distributions.ts";
import { Ledger, percentile } from "../model/ledger.ts";
import { SimulatedService } from "../model/service.ts";
import { Timeline } from "../model/timeline.ts";
import type { ServiceSpec } from "../scenario/service.ts";
import type { Scenario } from "../scenario.ts";
import type { Scripted } from "./answers.ts";
import { SimulatedLoop } from "./loop.ts";
import { type ModelSeries, modelName } from "./names.ts";
import { AlertHistory } from "./results/alerts.ts";
import { Notes } from "./results/notes.ts";
import { RunSeries } from "./results/series.ts";
import { multiples, runSchedule, type ScheduledTask } from "./schedule.ts";

/** Start of every run, Unix ms: midnight, so that ticks of any usual interval fall on multiples of it. */
const EPOCH = 1_767_225_600_000;

/** Maximum virtual time after a run for checks that still wait in queues, ms, and the steps in which it passes. */
const LONGEST_WAIT_MS = 600_000;
const STEP_MS = 1_000;

interface SimulationRunOptions {
  readonly policies: readonly CompiledPolicy[];
  readonly scenario: Scenario;
  /** By policy and component, where the scenario answers. */
  readonly scripts: ReadonlyMap<string, ReadonlyMap<string, Scripted>>;
  readonly samples: SampleStore;
  readonly measure: QueryEngine;
}

interface PolicyRun {
  readonly policy: CompiledPolicy;
  readonly loop: SimulatedLoop;
}

interface ServiceRun {
  readonly model: ServiceSpec;
  readonly service: SimulatedService;
}

export class SimulationRun {
  readonly ledger = new Ledger();
  readonly series = new RunSeries();
  readonly notes = new Notes();
  readonly alerts = new AlertHistory();
  readonly #options: SimulationRunOptions;
  readonly #timeline = new Timeline(EPOCH);
  readonly #agent: VirtualAgent;
  readonly #services: readonly ServiceRun[];
  readonly #loops: readonly PolicyRun[];
  readonly #prefixes: readonly string[];
  #revision = 0;

  constructor(options: SimulationRunOptions) {
    this.#options = options;
    const { scenario, policies } = options;
    const { seed, agentGroup } = scenario;
    const { clock } = this.#timeline;
    this.#prefixes = agentPrefixes(agentGroup);
    this.#agent = new VirtualAgent({ group: agentGroup, clock, chance: chanceOf(seed, 0) });
    let firstClass = 0;
    this.#services = scenario.services.map((model, at) => {
      const context = {
        timeline: this.#timeline,
        gate: this.#agent,
        ledger: this.ledger,
        firstClass,
        until: scenario.durationMs,
        chance: chanceOf(seed, at + 1),
      };
      firstClass += model.mix.length;
      return { model, service: new SimulatedService(model, context) };
    });
    for (const policy of policies) this.#publish(configEntries(policy));
    this.#loops = policies.flatMap((policy) => this.#loopOf(policy));
  }

  /** Runs the whole scenario. */
  async run(): Promise<void> {
    const { durationMs } = this.#options.scenario;
    this.#checkPoints();
    for (const { service } of this.#services) service.open();
    await runSchedule(this.#tasks(), (at) => this.#timeline.run(at));
    this.#timeline.run(durationMs);
    this.#decideWaiting();
  }

  /** Continues until the checks that still wait in queues are decided, because only decided checks count. */
  #decideWaiting(): void {
    const { durationMs } = this.#options.scenario;
    const waiting = () => this.#services.filter(({ service }) => service.undecided > 0);
    for (let ms = STEP_MS; ms <= LONGEST_WAIT_MS && waiting().length > 0; ms += STEP_MS)
      this.#timeline.run(durationMs + ms);
    for (const { model, service } of waiting()) {
      const text = `service ${model.name}: ${service.undecided} checks still waited in queues after ${LONGEST_WAIT_MS / 60_000} more minutes, and do not count`;
      this.notes.add(text, durationMs);
    }
  }

  /** At equal times configuration changes come first, then scrapes, then ticks. */
  #tasks(): readonly ScheduledTask[] {
    const { durationMs, sampleMs, changes } = this.#options.scenario;
    const every = (step: number, act: ScheduledTask["run"]): ScheduledTask => ({
      times: multiples(step, durationMs),
      run: act,
    });
    const byTime = Map.groupBy(changes, ({ value }) => value.at);
    const configure = (at: number) => {
      for (const { value } of byTime.get(at) ?? []) {
        this.#configure(value.policy, plain(value.values), at);
      }
    };
    return [
      { times: [...byTime.keys()].sort((a, b) => a - b).values(), run: configure },
      every(sampleMs, (at) => this.#sample(at)),
      ...this.#loops.map(({ loop }) => every(loop.intervalMs, (at) => loop.tick(at, EPOCH))),
    ];
  }

  #loopOf(policy: CompiledPolicy): PolicyRun[] {
    const { circuit } = policy;
    if (circuit === undefined) return [];
    const { measure, scripts } = this.#options;
    const loop = new SimulatedLoop(
      { ...policy, circuit },
      {
        measure,
        series: this.series,
        notes: this.notes,
        alerts: this.alerts,
        scripts: scripts.get(policy.name) ?? new Map(),
        publish: (entries) => this.#publish(entries),
      },
    );
    return [{ policy, loop }];
  }

  #configure(policyName: string | undefined, values: unknown, at: number): void {
    for (const { policy, loop } of this.#loops) {
      if (policyName !== undefined && policy.name !== policyName) continue;
      loop.configure(values as JsonObject, at);
    }
  }

  /** Passes entries to the agent in one batch, as a watch of the store would. */
  #publish(entries: ReadonlyMap<string, Uint8Array | undefined>): void {
    this.#revision += 1;
    const revision = this.#revision;
    const written = { revision, created: revision, leased: false };
    const ours = [...entries].filter(([key]) => this.#prefixes.some((one) => key.startsWith(one)));
    const notApplied = this.#agent.apply({
      revision,
      puts: ours.flatMap(([key, value]) =>
        value === undefined ? [] : [{ key, value, ...written }],
      ),
      deletes: ours.flatMap(([key, value]) => (value === undefined ? [key] : [])),
    });
    for (const [key, why] of notApplied)
      this.notes.add(`agent: ${key}: ${why}`, this.#timeline.now);
  }

  /** Notes services whose control point no policy selects, the most likely mistake in a scenario. */
  #checkPoints(): void {
    if (this.#options.policies.length === 0) return;
    for (const { model } of this.#services) {
      if (this.#agent.hasRulesAt(model.controlPoint)) continue;
      const { name, controlPoint } = model;
      const group = this.#options.scenario.agentGroup;
      this.notes.add(
        `service ${name}: no rule of the policies applies at control point ${controlPoint} for agent group ${group}`,
        0,
      );
    }
  }

  /** Scrapes all metrics. */
  #sample(at: number): void {
    const { samples } = this.#options;
    const needs = (name: string) => samples.needs(name);
    const read: Sample[] = [...this.#agent.samples(needs)];
    for (const run of this.#services) {
      const service = run.model.name;
      for (const [name, value] of this.#modelOf(run)) {
        // At time 0 there is no interval to measure yet.
        if (at > 0) this.series.add(modelName(service, name), at, value);
        const metric = `model_${name}`;
        if (!needs(metric) || Number.isNaN(value)) continue;
        read.push({ labels: { __name__: metric, service }, value });
      }
    }
    samples.addScrape(EPOCH + at, read);
  }

  #modelOf({ model, service }: ServiceRun): readonly (readonly [ModelSeries, number])[] {
    const { sampleMs } = this.#options.scenario;
    const stats = service.takeStats();
    const perSecond = (count: number) => (count * 1_000) / sampleMs;
    const latencies = Float64Array.from(stats.latencies).sort();
    return [
      ["offered", perSecond(stats.offered)],
      ["accepted", perSecond(stats.accepted)],
      ["goodput", perSecond(stats.answered)],
      ["refused", perSecond(stats.offered - stats.accepted)],
      ["failed", perSecond(stats.failed)],
      ["latency_p50", percentile(latencies, 50)],
      ["latency_p95", percentile(latencies, 95)],
      ["in_service", service.busy],
      ["queued", service.queued],
      ["utilisation", stats.busyMs / (model.servers * sampleMs)],
    ];
  }
}
