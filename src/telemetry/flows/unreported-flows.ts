// Remembers the decisions about flows whose end is reported without them. Access logs that leave out the decision have the id
// of the request; spans of SDKs that know no concurrency slots have the times of the check. Flows are remembered only while
// such reports arrive, and their number is bounded.

import type { Flow, SlotRef, Verdict } from "#flow/flow.ts";
import type { FlowListener } from "#flow/observer.ts";
import type { CheckTimes, LoggedDecision, LoggedWorkload } from "#wire/check/logged-decision.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";

/** Header of Envoy, and of other proxies and load balancers. */
const REQUEST_ID = "x-request-id";
/** Ids are 36 characters long; callers may choose longer ones where the proxy lets them. */
const LONGEST_ID = 128;
/** Flows of one generation; there are two. An entry takes some 300 bytes. */
const MAX_FLOWS = 50_000;
/** Limit of flows of one id that are compared: one request at several control points, or checks in the same millisecond. */
const MAX_OF_ONE_ID = 16;

interface Entry extends LoggedDecision {
  readonly controlPoint: string;
}

type Generation = Map<string, Entry[]>;

export class UnreportedFlows implements FlowListener, MetricSource {
  readonly #byRequest: Remembered;
  readonly #byCheck: Remembered;

  constructor(limit = MAX_FLOWS) {
    this.#byRequest = new Remembered(limit);
    this.#byCheck = new Remembered(limit);
  }

  decided(flow: Flow, verdict: Verdict): void {
    if (flow.expectEnd) return;
    if (flow.http === undefined) this.#rememberCheck(flow, verdict);
    else this.#rememberRequest(flow, verdict);
  }

  #rememberRequest({ http, controlPoint }: Flow, verdict: Verdict): void {
    if (!this.#byRequest.wanted) return;
    const { held, fluxMeters, decisions, reservationId } = verdict;
    const ends = held !== undefined || reservationId !== "";
    if (!ends && fluxMeters.length === 0 && !isScheduled(decisions)) return;
    const id = http?.header(REQUEST_ID);
    if (id === undefined || id === "" || id.length > LONGEST_ID) return;
    this.#byRequest.remember(id, entryOf(controlPoint, verdict));
  }

  /** Spans of SDKs carry their decision. Only slots and estimates are missing. */
  #rememberCheck({ controlPoint }: Flow, verdict: Verdict): void {
    if (!this.#byCheck.wanted) return;
    const { held, reservationId, start, end } = verdict;
    if (held === undefined && reservationId === "") return;
    const startMs = Math.floor(start);
    const id = checkId({ controlPoint, startMs, endMs: Math.floor(end) });
    this.#byCheck.remember(id, entryOf(controlPoint, verdict));
  }

  /** A proxy's record carried its decision. */
  reported(): void {
    this.#byRequest.unneeded();
  }

  /**
   * Takes the flow of a request out; undefined when none is known. Of flows of one request at several control points,
   * the latest at the given one, or the latest of all: the innermost ends first.
   */
  take(id: string, controlPoint: string): LoggedDecision | undefined {
    const fits = ({ controlPoint: at }: Entry) => controlPoint === "" || at === controlPoint;
    return this.#byRequest.take(id, fits);
  }

  /**
   * Takes the flow of an SDK's check out; undefined when none is known. Of flows of the same millisecond, takes
   * the latest whose slots all have keys of this check, or else the latest.
   */
  takeCheck(times: CheckTimes): LoggedDecision | undefined {
    const { labels } = times;
    const id = checkId(times);
    const isOf = ({ slots }: Entry) =>
      slots.every(({ label }) => {
        const colon = label.indexOf(":");
        return colon < 0 || labels(label.slice(0, colon)) === label.slice(colon + 1);
      });
    return this.#byCheck.take(id, isOf) ?? this.#byCheck.take(id, () => true);
  }

  /** Forgets flows that nobody has reported since the sweep before. */
  sweep(): void {
    this.#byRequest.turn();
    this.#byCheck.turn();
  }

  collect(to: MetricSink): void {
    const forgotten = this.#byRequest.forgotten + this.#byCheck.forgotten;
    if (forgotten > 0) to.number("sluice_flows_forgotten_total", [], forgotten);
  }
}

/** Flows by id, in two generations. */
class Remembered {
  /** True if flows are remembered: until nobody asks for them. */
  wanted = true;
  /** Flows that were forgotten because there were too many. */
  forgotten = 0;
  readonly #limit: number;
  /** Flows since the last change of generations, and those of the generation before. */
  #young: Generation = new Map();
  #old: Generation = new Map();
  /** Number of flows in the younger generation. */
  #count = 0;
  /** Flows that were asked for since the last change of generations. */
  #lookups = 0;
  #lookupsBefore = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** A report needed no flow from here. */
  unneeded(): void {
    if (!this.#isUsed) this.wanted = false;
  }

  remember(id: string, entry: Entry): void {
    if (this.#count >= this.#limit) {
      // No report asked for these flows, so further ones are not remembered.
      if (!this.#isUsed) this.wanted = false;
      for (const flows of this.#old.values()) this.forgotten += flows.length;
      this.turn();
    }
    const others = this.#young.get(id);
    if (others === undefined) this.#young.set(id, [entry]);
    else others.push(entry);
    this.#count++;
  }

  take(id: string, fits: (entry: Entry) => boolean): Entry | undefined {
    this.wanted = true;
    this.#lookups++;
    const found = takeFrom(this.#young, id, fits);
    if (found !== undefined) {
      this.#count--;
      return found;
    }
    return takeFrom(this.#old, id, fits);
  }

  /** Forgets the older generation. */
  turn(): void {
    this.#old = this.#young;
    this.#young = new Map();
    this.#count = 0;
    this.#lookupsBefore = this.#lookups;
    this.#lookups = 0;
  }

  get #isUsed(): boolean {
    return this.#lookups + this.#lookupsBefore > 0;
  }
}

function checkId({
  controlPoint,
  startMs,
  endMs,
}: Pick<CheckTimes, "controlPoint" | "startMs" | "endMs">): string {
  return `${startMs} ${endMs} ${controlPoint}`;
}

function entryOf(controlPoint: string, verdict: Verdict): Entry {
  return {
    controlPoint,
    accepted: verdict.accepted,
    fluxMeters: verdict.fluxMeters,
    slots: slotsOf(verdict),
    workloads: workloadsOf(verdict),
    expectEnd: false,
    reservationId: verdict.reservationId,
  };
}

/** The latest flow of an id that fits, of those that are compared. */
function takeFrom(
  flows: Generation,
  id: string,
  fits: (entry: Entry) => boolean,
): Entry | undefined {
  const entries = flows.get(id);
  if (entries === undefined) return undefined;
  const first = Math.max(0, entries.length - MAX_OF_ONE_ID);
  for (let at = entries.length - 1; at >= first; at--) {
    const entry = entries[at];
    if (entry === undefined || !fits(entry)) continue;
    entries.splice(at, 1);
    if (entries.length === 0) flows.delete(id);
    return entry;
  }
  return undefined;
}

function slotsOf({ held, decisions }: Verdict): readonly SlotRef[] {
  if (held === undefined) return [];
  const slots: SlotRef[] = [];
  for (const { component, detail, grantId } of decisions) {
    if (grantId === undefined || !("requestId" in detail) || detail.requestId === "") continue;
    const { policyName, policyHash, componentId } = component;
    const { label, requestId, consumed: tokens } = detail;
    slots.push({ policyName, policyHash, componentId, label, requestId, tokens });
  }
  return slots;
}

/** Schedulers are in the last stages, so the last decision is theirs if there is one. */
function isScheduled(decisions: Verdict["decisions"]): boolean {
  const last = decisions[decisions.length - 1];
  return last !== undefined && "workload" in last.detail;
}

const NO_WORKLOADS: readonly LoggedWorkload[] = [];

function workloadsOf({ accepted, decisions }: Verdict): readonly LoggedWorkload[] {
  if (!accepted) return NO_WORKLOADS;
  let workloads: LoggedWorkload[] | undefined;
  for (const { component, detail } of decisions) {
    if (!("workload" in detail)) continue;
    const { policyName, policyHash, componentId } = component;
    workloads ??= [];
    workloads.push({ policyName, policyHash, componentId, workload: detail.workload });
  }
  return workloads ?? NO_WORKLOADS;
}
