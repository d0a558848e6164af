// When to reclaim memory: at fixed shares of a limit, or again and again when usage has taken up a share of what was
// left.

/** `AdaptivePolicy` and `WatermarksPolicy` of the configuration. */
export interface PolicySettings {
  readonly adaptive_policy: { readonly enabled: boolean; readonly factor: number };
  readonly watermarks_policy: {
    readonly enabled: boolean;
    /** Shares of the limit, from 0 to 1. */
    readonly watermarks: readonly number[];
  };
}

/** Bytes at which to reclaim next, given the usage after the last time; Infinity: never again. */
export type Policy = (used: number, limit: number) => number;

/** Undefined where no policy is enabled. Watermarks take precedence. */
export function policyOf(settings: PolicySettings): Policy | undefined {
  const { adaptive_policy: adaptive, watermarks_policy: marks } = settings;
  if (marks.enabled) {
    const shares = marks.watermarks.toSorted((a, b) => a - b);
    return (used, limit) => {
      const next = shares.find((share) => share * limit > used);
      return next === undefined ? Number.POSITIVE_INFINITY : next * limit;
    };
  }
  if (adaptive.enabled) {
    const { factor } = adaptive;
    // A limit that is passed leaves nothing to divide; only growth beyond it counts then.
    return (used, limit) => used + Math.max(0, limit - used) * factor;
  }
  return undefined;
}
