// Counts what the flow controller decides, in plain numbers that are found by object identity: an event on the
// check path costs a few lookups and increments. Names are added to the numbers only when `/metrics` is read.

import {
  type ClassifierInfo,
  type Component,
  type ControlPointType,
  type Flow,
  RejectReason,
  SETTLEMENTS,
  type Settlement,
  SHED_CAUSES,
  type ShedCause,
  type Verdict,
} from "#flow/flow.ts";
import {
  type AdaptiveGauges,
  ANOMALIES,
  type Anomaly,
  LOAD_CONDITIONS,
  type LoadGauges,
  type MissingLabel,
  type Observer,
  type ScheduledFlow,
  type Settled,
} from "#flow/observer.ts";
import type { LoggedWorkload } from "#wire/check/logged-decision.ts";
import { LIMITER_COUNTERS, type MetricSink, type MetricSource } from "../metrics/table.ts";
import { SettlementCounts } from "./counts/settlement-counts.ts";
import { WorkloadCounts } from "./counts/workload-counts.ts";

/** `agent_group` is the configured `agent_info.agent_group`; `most_control_points` get series of their own. */
interface FlowMetricsSettings {
  readonly agent_group: string;
  readonly most_control_points?: number;
}

type ComponentName = Pick<Component, "kind" | "policyName" | "policyHash" | "componentId">;
type ClassifierName = Pick<ClassifierInfo, "policyName" | "policyHash" | "classifierIndex">;

/** The parts of the plan in force: series of anything else are removed. */
export interface PlanParts {
  readonly components: Iterable<ComponentName>;
  readonly classifiers: Iterable<ClassifierName>;
  /** Control points that policies name always have series of their own. */
  readonly controlPoints?: Iterable<string>;
}

const DECISION_TYPE: Readonly<Record<"accepted" | "rejected", string>> = {
  accepted: "DECISION_TYPE_ACCEPTED",
  rejected: "DECISION_TYPE_REJECTED",
};
const REASON: ReadonlyMap<RejectReason, string> = new Map<RejectReason, string>([
  [RejectReason.rateLimited, "REJECT_REASON_RATE_LIMITED"],
  [RejectReason.noTokens, "REJECT_REASON_NO_TOKENS"],
  [RejectReason.notSampled, "REJECT_REASON_NOT_SAMPLED"],
  [RejectReason.noMatchingRamp, "REJECT_REASON_NO_MATCHING_RAMP"],
]);

const OTHER = "_other";
/** Callers choose control points, and each becomes a series that stays, so their number and length are bounded. */
const MAX_CONTROL_POINTS = 1_000;
const LONGEST_CONTROL_POINT = 256;

interface ControlPointRow {
  /** Rows of the components that decided the last check here, by position: nearly always those of the next as well. */
  readonly recent: { component: Component; row: ComponentRow | undefined }[];
  accepted: number;
  rejected: number;
  ended: number;
  /** The sum of the three at the last sweep. */
  swept: number;
  /** By number of RejectReason. */
  readonly reasons: Float64Array;
  /** Checks that were shed: accepted and rejected ones by cause. Undefined while there are none. */
  shed: Float64Array | undefined;
  /** The types of the flows here. */
  http: boolean;
  feature: boolean;
  /** The services of the flows here; undefined where none is known. */
  services: Set<string> | undefined;
}

/** One control point as it is shown to people. */
export interface SeenControlPoint {
  readonly controlPoint: string;
  readonly type: ControlPointType;
  /** "" where no service is known. */
  readonly service: string;
}

/** Services of one control point that are remembered. */
const MAX_SERVICES = 64;

interface ComponentRow {
  readonly name: ComponentName;
  /** Accepted, accepted and dropped, rejected, rejected and dropped. */
  readonly counts: Float64Array;
  /** Flows without the label, by what the component reads it for. */
  readonly missing: Record<MissingLabel, number>;
  /** Undefined unless the component is a scheduler. */
  readonly workloads: WorkloadCounts | undefined;
  /** The numbers that a load scheduler reported last; undefined for other components. */
  load: LoadGauges | undefined;
  /** Undefined for components without adaptive limits. */
  adaptive: AdaptiveGauges | undefined;
  /** Present once the limiter has settled something. */
  settlements: SettlementCounts | undefined;
}

interface ClassifierRow {
  readonly name: ClassifierName;
  count: number;
}

export class FlowMetrics implements Observer, MetricSource {
  readonly #group: string;
  readonly #maxControlPoints: number;
  readonly #controlPoints = new Map<string, ControlPointRow>();
  readonly #others = controlPointRow();
  #named: ReadonlySet<string> = new Set();
  #own = 0;
  readonly #components = new Rows<Component, ComponentName, ComponentRow>(componentKey, (name) => ({
    name,
    counts: new Float64Array(4),
    missing: { key: 0, tokens: 0 },
    workloads: isScheduler(name) ? new WorkloadCounts() : undefined,
    load: undefined,
    adaptive: undefined,
    settlements: undefined,
  }));
  readonly #classifiers = new Rows<ClassifierInfo, ClassifierName, ClassifierRow>(
    classifierKey,
    (name) => ({ name, count: 0 }),
  );
  /** Gauges of components that have no series yet. */
  readonly #early: { component: Component; show: (row: ComponentRow) => void }[] = [];
  readonly #anomalies = new Map<Anomaly, number>();
  readonly #settlements: Record<Settlement, number> = { settled: 0, unknown: 0, elsewhere: 0 };
  #found = 0;
  #missed = 0;

  constructor(settings: FlowMetricsSettings) {
    this.#group = settings.agent_group;
    this.#maxControlPoints = settings.most_control_points ?? MAX_CONTROL_POINTS;
  }

  decided(flow: Flow, verdict: Verdict): void {
    const point = this.#controlPoint(flow.controlPoint);
    if (flow.type === "http") point.http = true;
    else point.feature = true;
    if (flow.services.length > 0) noteServices(point, flow.services);
    if (verdict.accepted) point.accepted++;
    else {
      point.rejected++;
      bump(point.reasons, verdict.reason);
    }
    const answer = verdict.accepted ? 0 : 2;
    const { decisions } = verdict;
    for (let at = 0; at < decisions.length; at++) {
      const decision = decisions[at];
      if (decision === undefined) continue;
      const row = this.#rowAt(point, at, decision.component);
      if (row === undefined) continue;
      if (row.workloads === undefined) bump(row.counts, decision.dropped ? answer + 1 : answer);
      else row.workloads.decided(decision, verdict.accepted);
    }
    for (const info of verdict.classifiers) {
      const row = this.#classifiers.of(info);
      if (row !== undefined) row.count++;
    }
  }

  #rowAt({ recent }: ControlPointRow, at: number, component: Component): ComponentRow | undefined {
    const known = recent[at];
    if (known?.component === component) return known.row;
    const row = this.#components.of(component);
    recent[at] = { component, row };
    return row;
  }

  ended(controlPoint: string, settlement?: Settlement): void {
    // An end need not name its control point. A row of its own would take the place of one that has a name.
    const row = controlPoint === "" ? this.#others : this.#controlPoint(controlPoint);
    row.ended++;
    if (settlement !== undefined) this.#settlements[settlement]++;
  }

  lookedUp(found: boolean): void {
    if (found) this.#found++;
    else this.#missed++;
  }

  anomaly(what: Anomaly): void {
    this.#anomalies.set(what, (this.#anomalies.get(what) ?? 0) + 1);
  }

  shed(controlPoint: string, accepted: boolean, cause: ShedCause): void {
    const point = this.#controlPoint(controlPoint);
    point.shed ??= new Float64Array(2 * SHED_CAUSES.length);
    bump(point.shed, 2 * SHED_CAUSES.indexOf(cause) + (accepted ? 0 : 1));
  }

  missingLabel(component: Component, what: MissingLabel): void {
    const row = this.#components.of(component);
    if (row !== undefined) row.missing[what]++;
  }

  queued(component: Component): void {
    this.#components.of(component)?.workloads?.queued();
  }

  scheduled(component: Component, flow: ScheduledFlow): void {
    this.#components.of(component)?.workloads?.scheduled(flow);
  }

  settled(component: Component, how: Settled, difference: number): void {
    const row = this.#components.of(component);
    if (row === undefined) return;
    row.settlements ??= new SettlementCounts();
    row.settlements.settled(how, difference);
  }

  loaded(component: Component, gauges: LoadGauges): void {
    this.#show(component, (row) => {
      row.load = gauges;
    });
  }

  adapted(component: Component, gauges: AdaptiveGauges): void {
    this.#show(component, (row) => {
      row.adaptive = gauges;
    });
  }

  /** The components of a new plan report their gauges before `keep` names them, and most of them only once. */
  #show(component: Component, show: (row: ComponentRow) => void): void {
    const row = this.#components.of(component);
    if (row === undefined) this.#early.push({ component, show });
    else show(row);
  }

  /** The numbers of a component that its limiter reported last. */
  gauges(name: ComponentName): Partial<Pick<ComponentRow, "load" | "adaptive">> {
    return this.#components.named(componentKey(name)) ?? {};
  }

  /** Adds the time that the service needed for an accepted flow of this workload. */
  completed({ workload, ...name }: LoggedWorkload, latencyMs: number): void {
    const row = this.#components.named(nameKey("workload_requests_total", name));
    row?.workloads?.completed(workload, latencyMs);
  }

  /**
   * Call in the turn in which a new plan is swapped in. Series of its components continue, also across policy edits
   * that do not change them; all others are removed, and a check that still runs on the old plan does not bring
   * them back.
   */
  keep({ components, classifiers, controlPoints = [] }: PlanParts): void {
    this.#components.keep(components);
    for (const { component, show } of this.#early.splice(0)) {
      const row = this.#components.of(component);
      if (row !== undefined) show(row);
    }
    for (const { recent } of [this.#others, ...this.#controlPoints.values()]) recent.length = 0;
    this.#classifiers.keep(classifiers);
    this.#named = new Set(controlPoints);
    this.#countOwn();
  }

  /** Removes the series of control points that nobody has used since the sweep before and that no policy names. */
  sweep(): void {
    for (const [name, row] of this.#controlPoints) {
      const total = row.accepted + row.rejected + row.ended;
      if (total === row.swept && !this.#named.has(name)) this.#controlPoints.delete(name);
      row.swept = total;
    }
    this.#countOwn();
  }

  /** The control points of flows that were judged of late, sorted by name. */
  get seen(): readonly SeenControlPoint[] {
    return [...this.#controlPoints]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([controlPoint, { http, feature, services = [""] }]) => {
        const types = [
          ...(feature ? ["feature" as const] : []),
          ...(http ? ["http" as const] : []),
        ];
        const names = [...services].sort();
        return types.flatMap((type) => names.map((service) => ({ controlPoint, type, service })));
      });
  }

  #countOwn(): void {
    this.#own = 0;
    for (const name of this.#controlPoints.keys()) if (!this.#named.has(name)) this.#own++;
  }

  collect(to: MetricSink): void {
    for (const [name, row] of this.#controlPoints) this.#collectControlPoint(to, name, row);
    this.#collectControlPoint(to, OTHER, this.#others);
    if (this.#found > 0) to.number("service_lookups_total", ["OK"], this.#found);
    if (this.#missed > 0) to.number("service_lookups_total", ["Error"], this.#missed);
    for (const row of this.#components.all()) collectComponent(to, row);
    for (const { name, count } of this.#classifiers.all()) {
      const { policyName, policyHash, classifierIndex } = name;
      if (count > 0)
        to.number("classifier_counter_total", [policyName, policyHash, classifierIndex], count);
    }
    for (const result of SETTLEMENTS) {
      const count = this.#settlements[result];
      if (count > 0) to.number("sluice_flow_end_settlements_total", [result], count);
    }
    for (const kind of ANOMALIES) {
      const count = this.#anomalies.get(kind);
      if (count !== undefined) to.number("sluice_anomalies_total", [kind], count);
    }
  }

  #controlPoint(name: string): ControlPointRow {
    return this.#controlPoints.get(name) ?? this.#newControlPoint(name);
  }

  #newControlPoint(name: string): ControlPointRow {
    // Text that is not well-formed Unicode cannot be written to the page, and `_other` is reserved.
    if (name === OTHER || !name.isWellFormed()) return this.#others;
    const named = this.#named.has(name);
    const room = this.#own < this.#maxControlPoints && name.length <= LONGEST_CONTROL_POINT;
    if (!named && !room) return this.#others;
    const row = controlPointRow();
    this.#controlPoints.set(name, row);
    if (!named) this.#own++;
    return row;
  }

  #collectControlPoint(to: MetricSink, name: string, row: ControlPointRow): void {
    const at = [name, this.#group];
    const { accepted, rejected, ended, reasons } = row;
    if (accepted + rejected > 0) to.number("flowcontrol_requests_total", at, accepted + rejected);
    const types = "flowcontrol_decisions_total";
    if (accepted > 0) to.number(types, [...at, DECISION_TYPE.accepted], accepted);
    if (rejected > 0) to.number(types, [...at, DECISION_TYPE.rejected], rejected);
    for (const [reason, text] of REASON) {
      const count = reasons[reason] ?? 0;
      if (count > 0) to.number("flowcontrol_reject_reasons_total", [...at, text], count);
    }
    if (ended > 0) to.number("flowcontrol_ends_total", at, ended);
    for (const [index, count] of row.shed?.entries() ?? []) {
      const type = DECISION_TYPE[index % 2 === 0 ? "accepted" : "rejected"];
      const cause = SHED_CAUSES[index >> 1] ?? "";
      if (count > 0) to.number("sluice_shed_checks_total", [...at, type, cause], count);
    }
  }
}

/** Rows found by the identity of an object, or by its name when the object is new: counters outlive plans. */
class Rows<T extends Name, Name extends object, Row extends { readonly name: Name }> {
  readonly #key: (name: Name) => string;
  readonly #make: (name: Name) => Row;
  #byObject = new WeakMap<T, Row | typeof REMOVED>();
  #byKey = new Map<string, Row>();
  #kept: ReadonlySet<string> | undefined;

  constructor(key: (name: Name) => string, make: (name: Name) => Row) {
    this.#key = key;
    this.#make = make;
  }

  /** The row of an object; undefined when `keep` removed it. */
  of(object: T): Row | undefined {
    const row = this.#byObject.get(object) ?? this.#find(object);
    return row === REMOVED ? undefined : row;
  }

  /** The row of this key; undefined without one. */
  named(key: string): Row | undefined {
    return this.#byKey.get(key);
  }

  all(): Iterable<Row> {
    return this.#byKey.values();
  }

  keep(names: Iterable<Name>): void {
    const kept = new Set<string>();
    for (const name of names) kept.add(this.#key(name));
    this.#kept = kept;
    this.#byKey = new Map([...this.#byKey].filter(([key]) => kept.has(key)));
    this.#byObject = new WeakMap();
  }

  #find(object: T): Row | typeof REMOVED {
    const key = this.#key(object);
    const removed = this.#kept !== undefined && !this.#kept.has(key);
    const row = removed ? REMOVED : (this.#byKey.get(key) ?? this.#make(object));
    if (row !== REMOVED) this.#byKey.set(key, row);
    this.#byObject.set(object, row);
    return row;
  }
}

const REMOVED = Symbol("removed");

function controlPointRow(): ControlPointRow {
  const reasons = new Float64Array(8);
  const counts = { accepted: 0, rejected: 0, ended: 0, swept: 0 };
  const seen = { http: false, feature: false, services: undefined };
  return { recent: [], ...counts, reasons, shed: undefined, ...seen };
}

function noteServices(row: ControlPointRow, services: readonly string[]): void {
  row.services ??= new Set();
  for (const service of services) if (row.services.size < MAX_SERVICES) row.services.add(service);
}

/** A sampler and a load ramp have the same metric, so they also share a key. */
function componentKey({ kind, ...name }: ComponentName): string {
  return nameKey(LIMITER_COUNTERS[kind], name);
}

function nameKey(metric: string, name: Omit<ComponentName, "kind">): string {
  return JSON.stringify([metric, name.policyName, name.policyHash, name.componentId]);
}

function classifierKey({ policyName, policyHash, classifierIndex }: ClassifierName): string {
  return JSON.stringify([policyName, policyHash, classifierIndex]);
}

function isScheduler({ kind }: ComponentName): boolean {
  return LIMITER_COUNTERS[kind] === "workload_requests_total";
}

function collectComponent(to: MetricSink, row: ComponentRow): void {
  const { name, counts, missing, workloads, load, adaptive, settlements } = row;
  const { policyName, policyHash, componentId, kind } = name;
  workloads?.collect(to, [policyName, policyHash, componentId]);
  settlements?.collect(to, [policyName, policyHash, componentId]);
  if (load !== undefined) {
    const labels = [policyName, policyHash, componentId];
    for (const condition of LOAD_CONDITIONS) {
      const is = load.condition === condition ? 1 : 0;
      to.number("sluice_load_condition", [...labels, condition], is);
    }
    to.number("token_bucket_lm_ratio", labels, load.multiplier);
    to.number("token_bucket_fill_rate", labels, load.fillRate);
    to.number("token_bucket_capacity_total", labels, load.fillRate);
    to.number("token_bucket_available_tokens_total", labels, load.available);
  }
  const limits = adaptive?.summary();
  if (limits !== undefined) {
    const { keys, lowest, highest, lowestLatency, highestLatency } = limits;
    const at = [policyName, policyHash, componentId];
    to.number("sluice_adaptive_limit_keys", at, keys);
    to.number("sluice_adaptive_limit", [...at, "lowest"], lowest);
    to.number("sluice_adaptive_limit", [...at, "highest"], highest);
    const latency = "sluice_adaptive_limit_latency_ms";
    if (lowestLatency !== undefined) to.number(latency, [...at, "lowest"], lowestLatency);
    if (highestLatency !== undefined) to.number(latency, [...at, "highest"], highestLatency);
  }
  for (const [at, count] of counts.entries()) {
    if (count === 0) continue;
    const type = at < 2 ? DECISION_TYPE.accepted : DECISION_TYPE.rejected;
    const labels = [policyName, policyHash, componentId, type, String(at % 2 === 1)];
    to.number(LIMITER_COUNTERS[kind], labels, count);
  }
  for (const [what, count] of Object.entries(missing)) {
    const labels = [policyName, policyHash, componentId, what];
    if (count > 0) to.number("sluice_limiter_missing_labels_total", labels, count);
  }
}

function bump(counts: Float64Array, at: number): void {
  counts[at] = (counts[at] ?? 0) + 1;
}
