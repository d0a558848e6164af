// Remembers flows by the id that the proxy gave their request, for access logs that leave out the decision: their record
// finds the slots and flux meters of its flow here. Bounded, and used only while there are such records.

import type { Flow, SlotRef, Verdict } from "#flow/flow.ts";
import { NO_OBSERVER, type Observer } from "#flow/observer.ts";
import type { LoggedDecision, LoggedWorkload } from "#wire/check/logged-decision.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";

/** Header of Envoy, and of other proxies and load balancers. */
const REQUEST_ID = "x-request-id";
/** Ids are 36 characters long; callers may choose longer ones where the proxy lets them. */
const LONGEST_ID = 128;
/** Flows of one generation; there are two. An entry takes some 300 bytes. */
const MAX_FLOWS = 50_000;
/** Flows of one id that are looked at: those of one request at several control points. */
const MAX_OF_ONE_ID = 16;

interface Entry extends LoggedDecision {
  readonly controlPoint: string;
}

type Generation = Map<string, Entry[]>;

export class UnreportedFlows implements Observer, MetricSource {
  readonly #most: number;
  /** Flows since the last change of generations, and those of the generation before. */
  #young: Generation = new Map();
  #old: Generation = new Map();
  /** Number of flows in the younger generation. */
  #count = 0;
  /** Whether flows are remembered: until records turn out to carry their decisions, or to be missing altogether. */
  #wanted = true;
  /** Records that were looked up since the last change of generations. */
  #lookups = 0;
  #lookupsBefore = 0;
  #forgotten = 0;

  constructor(most = MAX_FLOWS) {
    this.#most = most;
  }

  decided(flow: Flow, verdict: Verdict): void {
    if (!this.#wanted || flow.expectEnd || flow.http === undefined) return;
    const { held, fluxMeters, decisions, reservationId } = verdict;
    const ends = held !== undefined || reservationId !== "";
    if (!ends && fluxMeters.length === 0 && !isScheduled(decisions)) return;
    const id = flow.http.header(REQUEST_ID);
    if (id === undefined || id === "" || id.length > LONGEST_ID) return;
    this.#remember(id, {
      controlPoint: flow.controlPoint,
      accepted: verdict.accepted,
      fluxMeters,
      slots: slotsOf(verdict),
      workloads: workloadsOf(verdict),
      expectEnd: false,
      reservationId: verdict.reservationId,
    });
  }

  readonly ended = NO_OBSERVER.ended;
  readonly shed = NO_OBSERVER.shed;
  readonly lookedUp = NO_OBSERVER.lookedUp;
  readonly anomaly = NO_OBSERVER.anomaly;
  readonly missingLabel = NO_OBSERVER.missingLabel;
  readonly queued = NO_OBSERVER.queued;
  readonly scheduled = NO_OBSERVER.scheduled;
  readonly settled = NO_OBSERVER.settled;
  readonly loaded = NO_OBSERVER.loaded;
  readonly adapted = NO_OBSERVER.adapted;

  /** A proxy's record carried its decision. */
  reported(): void {
    if (!this.#isUsed) this.#wanted = false;
  }

  /**
   * Takes the flow of a request out; undefined when none is known. Of flows of one request at several control points,
   * the latest at the given one, or the latest of all: the innermost ends first.
   */
  take(id: string, controlPoint: string): LoggedDecision | undefined {
    this.#wanted = true;
    this.#lookups++;
    const found = takeFrom(this.#young, id, controlPoint);
    if (found !== undefined) {
      this.#count--;
      return found;
    }
    return takeFrom(this.#old, id, controlPoint);
  }

  /** Forgets flows that nobody has reported since the sweep before. */
  sweep(): void {
    this.#turn();
  }

  collect(to: MetricSink): void {
    if (this.#forgotten > 0) to.number("sluice_flows_forgotten_total", [], this.#forgotten);
  }

  get #isUsed(): boolean {
    return this.#lookups + this.#lookupsBefore > 0;
  }

  #remember(id: string, entry: Entry): void {
    if (this.#count >= this.#most) {
      // No record asked for these flows, so further ones are not remembered.
      if (!this.#isUsed) this.#wanted = false;
      for (const flows of this.#old.values()) this.#forgotten += flows.length;
      this.#turn();
    }
    const others = this.#young.get(id);
    if (others === undefined) this.#young.set(id, [entry]);
    else others.push(entry);
    this.#count++;
  }

  #turn(): void {
    this.#old = this.#young;
    this.#young = new Map();
    this.#count = 0;
    this.#lookupsBefore = this.#lookups;
    this.#lookups = 0;
  }
}

function takeFrom(flows: Generation, id: string, controlPoint: string): Entry | undefined {
  const entries = flows.get(id);
  if (entries === undefined) return undefined;
  const last = entries.length - 1;
  let at = last;
  if (controlPoint !== "") {
    const first = Math.max(0, entries.length - MAX_OF_ONE_ID);
    while (at >= first && entries[at]?.controlPoint !== controlPoint) at--;
    if (at < first) return undefined;
  }
  const [found] = entries.splice(at, 1);
  if (last === 0) flows.delete(id);
  return found;
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

/** Schedulers stand in the last stages, so the last decision tells. */
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
