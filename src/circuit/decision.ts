// Decisions, which are the numbers that agents act on. Each kind of component that makes decisions has one entry in
// `DecisionNumbers` and one row in `ACTUATORS`.

import type { StandIn } from "#base/failure-mode.ts";
import type { Configs, Kind, Leaf } from "./plan.ts";
import type { Tick } from "./ticks.ts";

/** Marks numbers that a failure mode made, because a signal is invalid. */
interface MadeByFailureMode {
  readonly failure?: StandIn;
}

export interface BucketNumbers extends MadeByFailureMode {
  readonly bucketCapacity: number;
  readonly fillAmount: number;
  readonly passThrough: boolean;
}

export interface ConcurrencyNumbers extends MadeByFailureMode {
  readonly maxConcurrency: number;
  readonly passThrough: boolean;
}

interface DecisionNumbers {
  readonly rate_limiter: BucketNumbers;
  readonly quota_scheduler: BucketNumbers;
  readonly concurrency_limiter: ConcurrencyNumbers;
  readonly concurrency_scheduler: ConcurrencyNumbers;
  readonly load_scheduler: {
    readonly tick: Tick;
    readonly loadMultiplier: number;
    readonly passThrough: boolean;
    readonly tokensByWorkload: ReadonlyMap<string, number>;
    /** Unix ms. */
    readonly validUntil: number;
  };
  readonly sampler: MadeByFailureMode & {
    readonly acceptPercentage: number;
    readonly passThroughLabelValues: readonly string[];
  };
  /** Undefined withdraws the decision, and the scale stays as it is. */
  readonly pod_scaler: { readonly desiredReplicas: number | undefined };
}

export type DecisionKind = keyof DecisionNumbers;

/** Numbers that agents act on. Sent when they change; the first ones are always sent. */
export type CircuitDecision<K extends DecisionKind = DecisionKind> = {
  readonly [Each in K]: {
    readonly kind: Each;
    readonly componentId: string;
    readonly agentGroups: readonly string[];
  } & DecisionNumbers[Each];
}[K];

/** The kinds whose decisions have these details. */
export type DecisionKindOf<Details> = {
  [K in DecisionKind]: DecisionNumbers[K] extends Details ? K : never;
}[DecisionKind];

interface ActuatorKind {
  /** Kind of its decisions, which is also the kind of the configuration that agents have for it. */
  readonly decision: DecisionKind;
  /** In-ports that must be valid: while one of them is not, the component's failure mode decides. */
  readonly needs: readonly string[];
  /** The largest effective value of each needed port; larger values count as this one. */
  readonly max?: number;
  /** The failure mode of a leaf whose policy names none; absent for `open`. */
  readonly byDefault?: (leaf: Leaf) => "open" | "closed";
  /** True if a decision fails open, for kinds whose decisions do not name their failure mode. */
  readonly failsOpen?: (decision: CircuitDecision) => boolean;
}

const BUCKET_NEEDS = ["bucket_capacity", "fill_amount"] as const;

/** The kinds of leaves that make decisions. */
export const ACTUATORS: Readonly<Partial<Record<Kind, ActuatorKind>>> = {
  rate_limiter: { decision: "rate_limiter", needs: BUCKET_NEEDS },
  quota_scheduler: { decision: "quota_scheduler", needs: BUCKET_NEEDS },
  concurrency_limiter: { decision: "concurrency_limiter", needs: ["max_concurrency"] },
  concurrency_scheduler: { decision: "concurrency_scheduler", needs: ["max_concurrency"] },
  load_actuator: {
    decision: "load_scheduler",
    needs: ["load_multiplier"],
    failsOpen: (decision) => decision.kind === "load_scheduler" && decision.passThrough,
  },
  sampler: {
    decision: "sampler",
    needs: ["accept_percentage"],
    max: 100,
    byDefault: (leaf) => (leaf.kind === "sampler" ? samplerDefault(leaf.config) : "open"),
  },
  // Without a valid number it leaves the scale as it is.
  pod_scale_actuator: { decision: "pod_scaler", needs: [] },
};

/** Kinds of decisions, in the order of the table. */
export const DECISION_KINDS: readonly DecisionKind[] = Object.values(ACTUATORS).map(
  ({ decision }) => decision,
);

/** The failure mode of a sampler whose policy names none. */
export function samplerDefault({ ramp_mode }: Pick<Configs["sampler"], "ramp_mode">) {
  return ramp_mode ? "closed" : "open";
}
