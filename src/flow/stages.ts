// The stages of a check, in the order in which a flow passes them. The row of a component kind in `plan/kinds.ts`
// names its stage.

import { RejectReason } from "./flow.ts";

export interface Stage {
  readonly name: string;
  readonly reason: RejectReason;
  /** HTTP status of a refusal whose component configures none. */
  readonly deniedStatus: number;
  /** Refuses flows in ramp mode for which this stage has no matching limiter. */
  readonly rampModeNeedsLimiter: boolean;
}

export const RAMP_STAGE: Stage = {
  name: "ramp",
  reason: RejectReason.noMatchingRamp,
  deniedStatus: 403,
  rampModeNeedsLimiter: true,
};

export const SAMPLE_STAGE: Stage = {
  name: "sample",
  reason: RejectReason.notSampled,
  deniedStatus: 403,
  rampModeNeedsLimiter: false,
};

/** Rate limiters and concurrency limiters are asked together: a refusal by one does not hide the other's. */
export const RATE_STAGE: Stage = {
  name: "rate · concurrency",
  reason: RejectReason.rateLimited,
  deniedStatus: 429,
  rampModeNeedsLimiter: false,
};

/** Flows wait here for a slot. */
export const SLOT_QUEUE_STAGE: Stage = {
  name: "queue for slots",
  reason: RejectReason.noTokens,
  deniedStatus: 503,
  rampModeNeedsLimiter: false,
};

/** Flows wait here for tokens. It is the last stage, so no flow takes tokens and is refused afterwards. */
export const TOKEN_QUEUE_STAGE: Stage = {
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
