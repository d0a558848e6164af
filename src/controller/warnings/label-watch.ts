// Notices labels that callers send with their checks, as SDKs do: no document shows them. A limiter has seen the label
// that it reads if it judged more flows than lacked it.

import type { CompiledPolicy, LimiterLabel } from "#policy/compiled.ts";
import { LIMITER_COUNTERS, type MetricName } from "#telemetry/metrics/table.ts";
import type { LocalMetrics } from "../query-backend.ts";

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

  /** The labels that limiters have seen. They stay known while a policy in force reads them. */
  get seen(): readonly string[] {
    return [...this.#seen];
  }

  /** Takes the counts as they are now. */
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
      // A composite has its limiter inside.
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
