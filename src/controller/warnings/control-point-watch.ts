// Notices control points that policies select and that no check names: a misspelt name, or a proxy that was never
// pointed at the agent. Such a policy limits nothing, and nothing else would say so.

import type { Clock } from "#base/clock.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import type { MetricName } from "#telemetry/metrics/table.ts";
import type { LocalMetrics } from "../query-backend.ts";

/** The number of checks that have named one control point. */
export interface CheckCount {
  readonly agentGroup: string;
  readonly controlPoint: string;
  readonly count: number;
}

/** A control point is unused when no check has named it for this long, ms. */
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

  /** Takes the counts as they are now. Follows the control points that these policies select, and no others. */
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
