// The stages of a check, in the order in which a flow passes them. The row of a component kind in `plan/kinds.ts`
// names its stage.

import { RejectReason } from "./flow.ts";

/** A stage whose limiters may refuse the flow. */
export interface LimitStage {
  readonly kind: "limit";
  readonly name: string;
  readonly reason: RejectReason;
  /** HTTP status of a refusal whose component configures none. */
  readonly deniedStatus: number;
  /** Refuses flows in ramp mode for which this stage has no matching limiter. */
  readonly rampModeNeedsLimiter: boolean;
}

/** A stage whose lookups may end the check early: the flow passes, and later stages are skipped. */
export interface LookupStage {
  readonly kind: "lookup";
  readonly name: string;
}

/** A stage whose shadows see the flow and never change the answer. */
export interface ObserveStage {
  readonly kind: "observe";
  readonly name: string;
}

export type Stage = LimitStage | LookupStage | ObserveStage;

export const RAMP_STAGE: LimitStage = {
  kind: "limit",
  name: "ramp",
  reason: RejectReason.noMatchingRamp,
  deniedStatus: 403,
  rampModeNeedsLimiter: true,
};

export const SAMPLE_STAGE: LimitStage = {
  kind: "limit",
  name: "sample",
  reason: RejectReason.notSampled,
  deniedStatus: 403,
  rampModeNeedsLimiter: false,
};

/** Rate limiters and concurrency limiters are asked together: a refusal by one does not hide the other's. */
export const RATE_STAGE: LimitStage = {
  kind: "limit",
  name: "rate · concurrency",
  reason: RejectReason.rateLimited,
  deniedStatus: 429,
  rampModeNeedsLimiter: false,
};

/** Flows wait here for a slot, before anything is looked up for them. */
export const SLOT_QUEUE_STAGE: LimitStage = {
  kind: "limit",
  name: "queue for slots",
  reason: RejectReason.noTokens,
  deniedStatus: 503,
  rampModeNeedsLimiter: false,
};

/** Flows wait here for tokens, as the last thing before the service gets them. */
export const TOKEN_QUEUE_STAGE: LimitStage = {
  kind: "limit",
  name: "queue for tokens",
  reason: RejectReason.noTokens,
  deniedStatus: 503,
  rampModeNeedsLimiter: false,
};

/** The order of a check; to change the order, move a row. */
export const STAGES: readonly Stage[] = [
  RAMP_STAGE,
  SAMPLE_STAGE,
  RATE_STAGE,
  SLOT_QUEUE_STAGE,
  TOKEN_QUEUE_STAGE,
];
