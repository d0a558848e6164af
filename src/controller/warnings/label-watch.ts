// Notices labels that callers send with their checks, as SDKs do: no document shows them. A limiter has seen the label
// that it reads if it judged more flows than lacked it.

import type { CompiledPolicy, LimiterLabel } from "#policy/compiled.ts";

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
