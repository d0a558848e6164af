// A scenario in real time: the requests of its simulation, and a record of their results, which is judged by the same
// code as a simulation. The caller starts processes and sends requests.

import { Fault } from "#base/fault.ts";
import { RejectReason } from "#flow/flow.ts";
import { findingLine } from "#policy/format.ts";
import { arrivals } from "#simulate/model/arrivals.ts";
import { chanceOf, drawClass } from "#simulate/model/distributions.ts";
import { ATTEMPT_END, Ledger } from "#simulate/model/ledger.ts";
import { Timeline } from "#simulate/model/timeline.ts";
import { cell, placeOf, table } from "#simulate/report.ts";
import { prepare, type SeriesNames } from "#simulate/run/prepare.ts";
import { AlertHistory } from "#simulate/run/results/alerts.ts";
import { Notes } from "#simulate/run/results/notes.ts";
import { RunSeries } from "#simulate/run/results/series.ts";
import type { ServiceSpec } from "#simulate/scenario/service.ts";
import type { Scenario } from "#simulate/scenario.ts";
import { judged, type Simulation, type SimulationInput } from "#simulate/simulate.ts";

/** A request that is to be sent `at` ms into the run. */
export interface PlannedRequest {
  readonly at: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Index in the mix of the service. */
  readonly requestClass: number;
}

/** The service that requests are sent to. */
interface RehearsedService {
  readonly servers: number;
  /** Time that each request takes, ms. */
  readonly serviceMs: number;
  /** Most requests that wait; Infinity for no bound. */
  readonly queue: number;
  /** Time that callers wait, ms; Infinity for no limit. */
  readonly timeoutMs: number;
}

/** Refused by a limiter, or let through and then answered, failed, or given up by its caller. */
export type RequestOutcome = "answered" | "refused" | "failed" | "timed_out";

const ENDS = {
  answered: ATTEMPT_END.answered,
  refused: ATTEMPT_END.open,
  failed: ATTEMPT_END.queueFull,
  timed_out: ATTEMPT_END.timedOut,
} as const;

export class Rehearsal {
  readonly requests: readonly PlannedRequest[];
  readonly service: RehearsedService;
  readonly input: SimulationInput;
  readonly #names: SeriesNames;
  readonly #ledger = new Ledger();
  readonly #series = new RunSeries();

  /** @throws Fault INVALID_ARGUMENT when the scenario does not fit the policies, or has parts that exist in simulations only. */
  constructor(input: SimulationInput) {
    this.input = input;
    const { policies, scenario, files } = input;
    const { findings, names } = prepare(policies, scenario, files);
    if (findings.length > 0) {
      throw new Fault("INVALID_ARGUMENT", findings.map(findingLine).join("\n"));
    }
    this.#names = names;
    const service = onlyService(scenario);
    const { servers, time, queue, timeout: timeoutMs } = service;
    this.service = { servers, serviceMs: time.value, queue, timeoutMs };
    this.requests = requestsOf(service, scenario);
  }

  /** Records a request that has ended. Times are ms into the run. */
  record(request: PlannedRequest, sentAt: number, endedAt: number, outcome: RequestOutcome): void {
    const refused = outcome === "refused";
    const reason = refused ? RejectReason.noTokens : RejectReason.none;
    const place = this.#ledger.recordArrival(request.requestClass, sentAt, reason);
    if (!refused) this.#ledger.recordEnd(place, endedAt, ENDS[outcome]);
  }

  /** Records a reading of a policy's signal, `CIRCUIT/NAME`; NaN for an invalid one. */
  recordReading(policy: string, signal: string, at: number, value: number): void {
    this.#series.add(`${policy}/${signal}`, at, value);
  }

  /** The run as it was recorded so far, judged by the scenario's expectations. */
  result(): Simulation {
    const record = {
      ledger: this.#ledger,
      series: this.#series,
      notes: new Notes(),
      alerts: new AlertHistory(),
    };
    return judged(this.input, record, this.#names);
  }
}

/** The scenario with at most `mostMs` of each phase, its last part, and with expectations of whole phases only. */
export function shortened(scenario: Scenario, mostMs: number): Scenario {
  const parts: { readonly until: number; readonly skipped: number }[] = [];
  const phases = scenario.phases.map(({ name, from, until }) => {
    const start = parts.at(-1)?.until ?? 0;
    const end = start + Math.min(mostMs, until - from);
    parts.push({ until: end, skipped: until - end });
    return { name, from: start, until: end };
  });
  const skipped = (ms: number) =>
    (parts.find(({ until }) => ms < until) ?? parts.at(-1))?.skipped ?? 0;
  return {
    ...scenario,
    durationMs: phases.at(-1)?.until ?? scenario.durationMs,
    phases,
    services: scenario.services.map((service) => {
      const { at, max } = service.rate;
      return { ...service, rate: { at: (ms) => at(ms + skipped(ms)), max } };
    }),
    expectations: scenario.expectations.filter(({ value }) => value.phase !== undefined),
  };
}

/** Goodput and latency of two runs of one scenario beside each other. */
export function comparisonLines(simulated: Simulation, real: Simulation): readonly string[] {
  const heads = ["phase", "requests", "goodput/s", "in reality", "p95 ms", "in reality"];
  return table(
    heads,
    simulated.rows.map((row, at) => {
      const { goodput = Number.NaN, p95 = Number.NaN } = real.rows[at] ?? {};
      return [...placeOf(row), ...[row.goodput, goodput, row.p95, p95].map(cell)];
    }),
    2,
  );
}

/** The requests that the simulation of the scenario sends. */
function requestsOf(
  service: ServiceSpec,
  { seed, durationMs: until }: Scenario,
): readonly PlannedRequest[] {
  const requests: PlannedRequest[] = [];
  const chance = chanceOf(seed, 1);
  const timeline = new Timeline(0);
  arrivals({ ...service, until }, timeline, chance, () => {
    const requestClass = drawClass(service.mix, chance);
    const labels = service.mix[requestClass]?.labels ?? {};
    requests.push({ at: timeline.now, labels, requestClass });
  });
  timeline.run(until);
  return requests;
}

type SteadyService = ServiceSpec & { readonly time: { readonly kind: "constant" } };

/** Refuses scenarios that draw anything but arrivals by chance: the draws would differ from those of the simulation. */
function onlyService({ services, scripts, changes, durationMs }: Scenario): SteadyService {
  const [service, ...others] = services;
  if (service === undefined || others.length > 0) throw cannot("one service", services.length);
  if (!isSteady(service)) throw cannot("a constant service time", service.time.kind);
  const { slowdown, retries, rampMode, services: memberOf } = service;
  if (slowdown.at(0) !== 1 || slowdown.at(durationMs) !== 1 || slowdown.max !== 1)
    throw cannot("no slowdown", "one");
  if (retries !== undefined) throw cannot("no retries", "some");
  if (rampMode || memberOf.length > 0) throw cannot("neither ramp_mode nor services", "one");
  if (scripts.length > 0) throw cannot("no series", scripts.length);
  if (changes.length > 0) throw cannot("no dynamic_config", changes.length);
  return service;
}

function isSteady(service: ServiceSpec): service is SteadyService {
  return service.time.kind === "constant";
}

function cannot(wanted: string, got: string | number): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `a scenario in real time: wanted ${wanted}, got ${got === 0 ? "none" : got}`,
  );
}
