// The decision of a limiter as replies report it.

import type { ReportedDetail, ReportedKind } from "./limiter-details.ts";

/** Identifies one component. The same object for the life of a plan. */
export interface ReportedComponent {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly kind: ReportedKind;
  readonly deniedStatus: number;
}

export interface ReportedDecision {
  readonly component: ReportedComponent;
  readonly dropped: boolean;
  /** Labels that the flow lacks, as bits: 1 the key, 2 the key where a default one was used, 4 the number of tokens. */
  readonly missing: number;
  /** ms; -1 leaves the field out. */
  readonly waitMs: number;
  /** The failure mode that answered; undefined when the limiter itself did. */
  readonly failure: string | undefined;
  /** The detail of the component's kind. */
  readonly detail: ReportedDetail;
}
