// Tells which names of policies the agent of this process has met: control points that checks name, and labels that limiters
// read. A misspelt name limits nothing, and nothing else would report it.

import type { Clock } from "#base/clock.ts";
import type { CompiledPolicy, LimiterLabel } from "#policy/compiled.ts";
import { LIMITER_COUNTERS, type MetricName } from "#telemetry/metrics/table.ts";
import type { LocalMetrics } from "../query-backend.ts";

/** The number of checks that have named one control point. */
export interface CheckCount {
  readonly agentGroup: string;
  readonly controlPoint: string;
  readonly count: number;
}

/** A control point is unused if no check has named it for this long, ms. */
const UNUSED_MS = 600_000;

interface Seen {
  count: number;
  /** When the count last grew, or when a policy first selected the control point; on the monotonic clock. */
  at: number;
}

export class ControlPointWatch {
  readonly #clock: Clock;
  readonly #checks: () => Iterable<CheckCount>;
  /** The control points that a policy in force selects. */
  #seen = new Map<string, Seen>();

  constructor(clock: Clock, checks: () => Iterable<CheckCount>) {
    this.#clock = clock;
    this.#checks = checks;
  }

  /** Reads the present counts. Follows exactly the control points that these policies select. */
  observe(policies: readonly Pick<CompiledPolicy, "needs">[]): void {
    const now = this.#clock.now();
    const seen = new Map<string, Seen>();
    for (const { needs } of policies) {
      for (const { kind, name, agentGroup = "" } of needs) {
        if (kind !== "control_point") continue;
        const key = keyOf(agentGroup, name);
        seen.set(key, this.#seen.get(key) ?? { count: 0, at: now });
      }
    }
    for (const { agentGroup, controlPoint, count } of this.#checks()) {
      const own = seen.get(keyOf(agentGroup, controlPoint));
      if (own === undefined || own.count === count) continue;
      own.count = count;
      own.at = now;
    }
    this.#seen = seen;
  }

  isUnused(agentGroup: string, controlPoint: string): boolean {
    const seen = this.#seen.get(keyOf(agentGroup, controlPoint));
    return seen !== undefined && this.#clock.now() - seen.at >= UNUSED_MS;
  }
}

function keyOf(agentGroup: string, controlPoint: string): string {
  return JSON.stringify([agentGroup, controlPoint]);
}

/** The counts of checks that the agent of this process keeps. */
export function* checksIn(meters: LocalMetrics): Generator<CheckCount> {
  const name = "flowcontrol_requests_total" satisfies MetricName;
  for (const { labels, value: count } of meters.samples((each) => each === name)) {
    const { agent_group: agentGroup = "", control_point: controlPoint = "" } = labels;
    yield { agentGroup, controlPoint, count };
  }
}

/** The flows that one limiter has judged so far. */
export interface LimiterCount {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly flows: number;
  /** Number of flows that lacked a label, by what the limiter reads it for. */
  readonly missing: Readonly<Record<LimiterLabel["use"], number>>;
}

export class LabelWatch {
  readonly #limiters: () => readonly LimiterCount[];
  #seen: ReadonlySet<string> = new Set();

  constructor(limiters: () => readonly LimiterCount[]) {
    this.#limiters = limiters;
  }

  /** The labels that limiters have seen. They are remembered while a policy in force reads them. */
  get seen(): readonly string[] {
    return [...this.#seen];
  }

  /** Reads the present counts. */
  observe(policies: readonly Pick<CompiledPolicy, "name" | "hash" | "needs">[]): void {
    const seen = new Set<string>();
    let counts: readonly LimiterCount[] | undefined;
    for (const policy of policies) {
      for (const { kind, name, readBy } of policy.needs) {
        if (kind !== "label" || seen.has(name)) continue;
        counts ??= this.#limiters();
        if (this.#seen.has(name) || (readBy && isSeen(policy, readBy, counts))) seen.add(name);
      }
    }
    this.#seen = seen;
  }
}

function isSeen(
  { name, hash }: Pick<CompiledPolicy, "name" | "hash">,
  { componentId: id, use }: LimiterLabel,
  counts: readonly LimiterCount[],
): boolean {
  return counts.some(
    ({ policyName, policyHash, componentId, flows, missing }) =>
      policyName === name &&
      policyHash === hash &&
      // The limiter of a composite is inside it.
      (componentId === id || componentId.startsWith(`${id}.`)) &&
      flows > missing[use],
  );
}

const MISSING = "sluice_limiter_missing_labels_total" satisfies MetricName;
const LIMITER_METRICS: ReadonlySet<string> = new Set([...Object.values(LIMITER_COUNTERS), MISSING]);

/** The counts of the limiters whose agent runs in this process. */
export function limitersIn(meters: LocalMetrics): readonly LimiterCount[] {
  const limiters = new Map<string, LimiterCount>();
  for (const { labels, value } of meters.samples((each) => LIMITER_METRICS.has(each))) {
    const { policy_name: policyName = "", policy_hash: policyHash = "" } = labels;
    const { component_id: componentId = "", label } = labels;
    const key = JSON.stringify([policyName, policyHash, componentId]);
    const known = limiters.get(key);
    const { flows = 0, missing = { key: 0, tokens: 0 } } = known ?? {};
    const now =
      label === "key" || label === "tokens"
        ? { flows, missing: { ...missing, [label]: value } }
        : { flows: flows + value, missing };
    limiters.set(key, { policyName, policyHash, componentId, ...now });
  }
  return [...limiters.values()];
}
