// Plays a scenario in real time: sends the requests of its simulation at their times through Envoy and Sluice to a service
// that sleeps as long as the scenario says.

import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findingLine } from "#policy/format.ts";
import { compileSet } from "#policy/set.ts";
import { readScenario, type Scenario } from "#simulate/scenario.ts";
import { type Simulation, type SimulationInput, simulate } from "#simulate/simulate.ts";
import { DemoError, print } from "../processes.ts";
import type { SidecarDemo } from "../sidecar.ts";
import { processorTime, waitingLine } from "./processor-time.ts";
import { type PlannedRequest, Rehearsal, type RequestOutcome } from "./rehearsal.ts";

const SCENARIOS = join(import.meta.dirname, "../../scenarios");
/** Interval at which signals are read, ms. */
const SAMPLE_MS = 1_000;
const HEADER = "http.request.header.";

/** Copies the policy of this name into a directory that Sluice reads. */
export function copyPolicy(policy: string, directory: string): void {
  cpSync(policyFile(policy), join(directory, `${policy}.yaml`));
}

/** The shipped scenario of this name. */
export function scenarioOf(name: string): Scenario {
  const file = join(SCENARIOS, `${name}.yaml`);
  if (!existsSync(file) || !existsSync(policyFile(name)))
    throw new DemoError(`wanted the name of a scenario that has a policy, got ${name}`);
  const { scenario, findings } = readScenario(readFileSync(file, "utf8"));
  if (scenario === undefined) throw refused(file, findings);
  return scenario;
}

/** Input of a simulation of the scenario, with the policy of this name or without any. */
export function inputOf(scenario: Scenario, policy: string | undefined): SimulationInput {
  const files = new Map<string, string>();
  // Without a policy there are no signals, and expectations make no sense.
  if (policy === undefined)
    return { policies: [], scenario: { ...scenario, expectations: [], plot: [] }, files };
  const file = policyFile(policy);
  const text = readFileSync(file, "utf8");
  const { policies, findings } = compileSet([{ source: file, defaultName: policy, text }], {
    digest: (content) => createHash("sha256").update(content).digest("hex"),
    queries: "prometheus",
  });
  if (findings.length > 0) throw new DemoError(findings.map(findingLine).join("\n"));
  return { policies, scenario, files };
}

/** The arguments of `slow-service.ts` for a scenario. */
export function serviceOf(input: SimulationInput): readonly string[] {
  const { servers, serviceMs, queue } = new Rehearsal(input).service;
  return ["deploy/demo/slow-service.ts", ...[servers, serviceMs, queue].map(String)];
}

export async function simulated(input: SimulationInput): Promise<Simulation> {
  const result = await simulate(input);
  if (!result.ok) throw refused("scenario", result.findings);
  return result.simulation;
}

/**
 * Sends the requests of the scenario to a running demo and returns the result. Prints each phase as it begins and, at the
 * end, how busy the machine was.
 */
export async function play(demo: SidecarDemo, input: SimulationInput): Promise<Simulation> {
  for (const { name } of input.policies) await demo.answers(graphOf(demo, name));
  const rehearsal = new Rehearsal(input);
  const player = new Player(demo, rehearsal);
  const before = processorTime(demo.pids);
  await player.run();
  const line = waitingLine(before, processorTime(demo.pids));
  if (line !== undefined) print(`  ${line}`);
  return rehearsal.result();
}

function refused(source: string, findings: readonly Parameters<typeof findingLine>[0][]) {
  return new DemoError(findings.map((finding) => findingLine({ ...finding, source })).join("\n"));
}

function graphOf(demo: SidecarDemo, policy: string): string {
  return `${demo.url("Sluice")}/v1/policies/${policy}/graph?format=json`;
}

/** The policy that belongs to the scenario of this name. */
function policyFile(name: string): string {
  return join(SCENARIOS, "policies", `${name}.yaml`);
}

class Player {
  readonly #demo: SidecarDemo;
  readonly #rehearsal: Rehearsal;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 2_000 });
  readonly #started = performance.now();
  #open = 0;

  constructor(demo: SidecarDemo, rehearsal: Rehearsal) {
    this.#demo = demo;
    this.#rehearsal = rehearsal;
  }

  /** Milliseconds since the start. */
  get #now(): number {
    return performance.now() - this.#started;
  }

  async run(): Promise<void> {
    try {
      await Promise.all([this.#announce(), this.#watch(), this.#send()]);
      while (this.#open > 0) await this.#until(this.#now + 10);
    } finally {
      this.#agent.destroy();
    }
  }

  async #until(ms: number): Promise<void> {
    await sleep(Math.max(0, ms - this.#now), undefined, { signal: this.#demo.stop });
  }

  async #announce(): Promise<void> {
    const { phases, services, durationMs } = this.#rehearsal.input.scenario;
    for (const { name, from, until } of phases) {
      await this.#until(from);
      const rate = services[0]?.rate.at(until - 1) ?? 0;
      print(`  ${name}: ${(until - from) / 1_000} s, ${rate} requests a second`);
    }
    await this.#until(durationMs);
  }

  /** Reads the signals of all policies. */
  async #watch(): Promise<void> {
    const { policies, scenario } = this.#rehearsal.input;
    if (policies.length === 0) return;
    for (let at = 0; at < scenario.durationMs; at += SAMPLE_MS) {
      await this.#until(at);
      for (const { name } of policies) {
        const reply = await fetch(graphOf(this.#demo, name), { signal: this.#demo.stop });
        const { readings } = (await reply.json()) as { readings: Record<string, unknown> };
        for (const [signal, value] of Object.entries(readings))
          this.#rehearsal.recordReading(
            name,
            signal,
            at,
            value === null ? Number.NaN : Number(value),
          );
      }
    }
  }

  async #send(): Promise<void> {
    for (const each of this.#rehearsal.requests) {
      if (each.at > this.#now) await this.#until(each.at);
      this.#request(each);
    }
  }

  #request(planned: PlannedRequest): void {
    const headers = headersOf(planned.labels);
    const sentAt = this.#now;
    let gaveUp = false;
    let done = false;
    this.#open += 1;
    const end = (outcome: RequestOutcome) => {
      if (done) return;
      done = true;
      clearTimeout(timer);
      this.#open -= 1;
      this.#rehearsal.record(planned, sentAt, this.#now, outcome);
    };
    const call = request(this.#demo.url("Envoy"), { agent: this.#agent, headers }, (reply) => {
      reply.resume();
      reply.once("end", () => end(outcomeOf(reply.statusCode ?? 0)));
      reply.once("error", () => end(gaveUp ? "timed_out" : "failed"));
    });
    call.once("error", () => end(gaveUp ? "timed_out" : "failed"));
    const { timeoutMs } = this.#rehearsal.service;
    const timer =
      timeoutMs === Number.POSITIVE_INFINITY
        ? undefined
        : setTimeout(() => {
            gaveUp = true;
            call.destroy();
          }, timeoutMs);
    call.end();
  }
}

/** The policies of the scenarios refuse with 429. */
function outcomeOf(status: number): RequestOutcome {
  if (status === 429) return "refused";
  return status === 200 ? "answered" : "failed";
}

/** The headers from which requests get these labels. */
function headersOf(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => {
      if (!name.startsWith(HEADER)) throw new DemoError(`${name} is not the label of a header`);
      return [name.slice(HEADER.length).replaceAll("_", "-"), value];
    }),
  );
}
