// One run: services, their callers, the agent before them and the circuits behind it, in one virtual time.
// Nothing here knows the real clock, and equal seeds give equal runs.

import { seededChance } from "#base/chance.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { plain } from "#policy/tree.ts";
import type { Measure, Sample } from "#promql/result.ts";
import type { SampleStore } from "#promql/samples.ts";
import { agentPrefixes, configEntries } from "#store/rules.ts";
import { VirtualAgent } from "../model/agent.ts";
import { Ledger, percentile } from "../model/ledger.ts";
import { Service } from "../model/service.ts";
import { Timeline } from "../model/timeline.ts";
import type { Served } from "../scenario/served.ts";
import type { Scenario } from "../scenario.ts";
import { type Course, follow, multiples } from "./agenda.ts";
import { Alarms } from "./alarms.ts";
import type { Scripted } from "./answers.ts";
import { Loop } from "./loop.ts";
import { type ModelSeries, modelName } from "./names.ts";
import { Notes } from "./notes.ts";
import { Series } from "./series.ts";

/** When runs begin, Unix ms: a whole day, so that ticks of any usual length fall on whole multiples. */
const EPOCH = 1_767_225_600_000;

export interface WorldOptions {
  readonly policies: readonly CompiledPolicy[];
  readonly scenario: Scenario;
  /** By policy and component, where the scenario answers. */
  readonly scripts: ReadonlyMap<string, ReadonlyMap<string, Scripted>>;
  readonly samples: SampleStore;
  readonly measure: Measure;
}

interface Running {
  readonly policy: CompiledPolicy;
  readonly loop: Loop;
}

interface Open {
  readonly model: Served;
  readonly service: Service;
}

export class World {
  readonly ledger = new Ledger();
  readonly series = new Series();
  readonly notes = new Notes();
  readonly alerts = new Alarms();
  readonly #options: WorldOptions;
  readonly #timeline = new Timeline(EPOCH);
  readonly #agent: VirtualAgent;
  readonly #services: readonly Open[];
  readonly #loops: readonly Running[];
  readonly #prefixes: readonly string[];
  #revision = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { scenario, policies } = options;
    const { seed, agentGroup } = scenario;
    const { clock } = this.#timeline;
    this.#prefixes = agentPrefixes(agentGroup);
    // Each has dice of its own: a change of one leaves what the others roll as it was.
    const chanceOf = (place: number) => seededChance(Math.imul(seed + 1, 0x9e3779b1) + place);
    this.#agent = new VirtualAgent({ group: agentGroup, clock, chance: chanceOf(0) });
    let firstSort = 0;
    this.#services = scenario.services.map((model, at) => {
      const world = {
        ...{ timeline: this.#timeline, gate: this.#agent, ledger: this.ledger, firstSort },
        until: scenario.durationMs,
        chance: chanceOf(at + 1),
      };
      firstSort += model.mix.length;
      return { model, service: new Service(model, world) };
    });
    for (const policy of policies) this.#publish(configEntries(policy));
    this.#loops = policies.flatMap((policy) => this.#loopOf(policy));
  }

  /** Runs the whole scenario. */
  async run(): Promise<void> {
    const { durationMs } = this.#options.scenario;
    this.#checkPoints();
    for (const { service } of this.#services) service.open();
    await follow(this.#courses(), (at) => this.#timeline.run(at));
    this.#timeline.run(durationMs);
  }

  /** Configuration changes before meters are read before ticks, at each moment that has any of them. */
  #courses(): readonly Course[] {
    const { durationMs, sampleMs, changes } = this.#options.scenario;
    const every = (step: number, act: Course["act"]): Course => ({
      times: multiples(step, durationMs),
      act,
    });
    const byTime = Map.groupBy(changes, ({ value }) => value.at);
    const configure = (at: number) => {
      for (const { value } of byTime.get(at) ?? []) {
        this.#configure(value.policy, plain(value.values), at);
      }
    };
    return [
      { times: [...byTime.keys()].sort((a, b) => a - b).values(), act: configure },
      every(sampleMs, (at) => this.#sample(at)),
      ...this.#loops.map(({ loop }) => every(loop.intervalMs, (at) => loop.tick(at, EPOCH))),
    ];
  }

  #loopOf(policy: CompiledPolicy): Running[] {
    if (policy.circuit === undefined) return [];
    const { measure, scripts } = this.#options;
    const loop = new Loop(policy.circuit, policy.dynamicConfig, {
      ...{ measure, series: this.series, notes: this.notes, alerts: this.alerts },
      scripts: scripts.get(policy.name) ?? new Map(),
      publish: (entries) => this.#publish(entries),
    });
    return [{ policy, loop }];
  }

  #configure(policyName: string | undefined, values: unknown, at: number): void {
    for (const { policy, loop } of this.#loops) {
      if (policyName !== undefined && policy.name !== policyName) continue;
      loop.configure(values as Readonly<Record<string, unknown>>, at);
    }
  }

  /** What a watch of the agent's group would bring, in one batch. */
  #publish(entries: ReadonlyMap<string, Uint8Array | undefined>): void {
    this.#revision += 1;
    const revision = this.#revision;
    const ours = [...entries].filter(([key]) => this.#prefixes.some((one) => key.startsWith(one)));
    const odd = this.#agent.take({
      revision,
      puts: ours.flatMap(([key, value]) => (value === undefined ? [] : [{ key, value, revision }])),
      deletes: ours.flatMap(([key, value]) => (value === undefined ? [key] : [])),
    });
    for (const [key, why] of odd) this.notes.add(`agent: ${key}: ${why}`, this.#timeline.now);
  }

  /** A limiter that was meant for a service and does not know it is the likeliest mistake of all. */
  #checkPoints(): void {
    if (this.#options.policies.length === 0) return;
    for (const { model } of this.#services) {
      if (this.#agent.knows(model.controlPoint)) continue;
      const { name, controlPoint } = model;
      const group = this.#options.scenario.agentGroup;
      this.notes.add(
        `service ${name}: no rule of the policies speaks at control point ${controlPoint} for agent group ${group}`,
        0,
      );
    }
  }

  /** Reads all meters, as a scrape at this moment would. */
  #sample(at: number): void {
    const { samples } = this.#options;
    const needs = (name: string) => samples.needs(name);
    const read: Sample[] = [...this.#agent.samples(needs)];
    for (const { model, service } of this.#services) {
      for (const [name, value] of this.#modelOf(model, service)) {
        // The first reading is of no time at all.
        if (at > 0) this.series.add(modelName(model.name, name), at, value);
        const metric = `model_${name}`;
        if (!needs(metric) || Number.isNaN(value)) continue;
        read.push({ labels: { __name__: metric, service: model.name }, value });
      }
    }
    samples.take(EPOCH + at, read);
  }

  #modelOf(model: Served, service: Service): readonly (readonly [ModelSeries, number])[] {
    const { sampleMs } = this.#options.scenario;
    const lately = service.takeLately();
    const perSecond = (count: number) => (count * 1_000) / sampleMs;
    const latencies = Float64Array.from(lately.latencies).sort();
    return [
      ["offered", perSecond(lately.offered)],
      ["accepted", perSecond(lately.accepted)],
      ["goodput", perSecond(lately.answered)],
      ["refused", perSecond(lately.offered - lately.accepted)],
      ["failed", perSecond(lately.failed)],
      ["latency_p50", percentile(latencies, 50)],
      ["latency_p95", percentile(latencies, 95)],
      ["in_service", service.busy],
      ["queued", service.queued],
      ["utilisation", lately.busyMs / (model.servers * sampleMs)],
    ];
  }
}
