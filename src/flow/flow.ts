// The glossary of one check: what asks to pass (Flow), what was answered (Verdict), what each limiter
// said (Decision), and an answer that is not there yet (Pending). Numbers of enums are those of the wire.

import type { ClassifierInfo } from "./classify.ts";
import type { LabelSource, Labels } from "./label.ts";

/** How the caller was inserted: an HTTP door sees requests, a feature door sees only labels. */
export type ControlPointType = "http" | "feature";

/** One end of the connection that carried the request. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** The HTTP request under evaluation, as classifiers read it. Bytes behind it may be read on demand. */
export interface HttpAttributes {
  readonly method: string;
  /** Request target: query included, undecoded. */
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly protocol: string;
  readonly body: string;
  /** Bytes of the body as the caller states them; -1 when unknown. */
  readonly size: number;
  /** The proxy's id of the request; empty elsewhere. */
  readonly id: string;
  /** Value of a header by its name as received; repeated headers are joined with `,`. */
  header(name: string): string | undefined;
  readonly source: Endpoint | undefined;
  readonly destination: Endpoint | undefined;
}

/** One request that asks to pass. Lent until its verdict is there: doors use the object again for the next. */
export interface Flow {
  readonly controlPoint: string;
  readonly type: ControlPointType;
  /** Services the flow belongs to; empty when unknown. */
  readonly services: readonly string[];
  readonly labels: LabelSource;
  /** Absent where the caller described no HTTP request: then no classifier has anything to read. */
  readonly http: HttpAttributes | undefined;
  readonly rampMode: boolean;
  readonly expectEnd: boolean;
  /** The caller's deadline on `Clock.now()`; Infinity when there is none. */
  readonly deadline: number;
}

export const RejectReason = {
  none: 0,
  rateLimited: 1,
  noTokens: 2,
  notSampled: 3,
  noMatchingRamp: 4,
} as const;
export type RejectReason = (typeof RejectReason)[keyof typeof RejectReason];

export type LimiterKind = "rate_limiter" | "concurrency_limiter" | "sampler" | "ramp_sampler";

/** Names one component of one version of one policy. Identity-stable for the life of a plan. */
export interface Component {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly kind: LimiterKind;
  /** Configured HTTP status of a refusal; 0 leaves it to the stage. */
  readonly deniedStatus: number;
  /** What an undecided take of this component means. */
  readonly onFailure: FailureMode;
}

/** What stands in for an answer that could not be had. Always named, never implied. */
export type FailureMode = "open" | "closed" | "local" | "last_known";

/** What was really taken: enough to give it back from anywhere, also from another connection. */
export interface Grant {
  readonly policyName: string;
  readonly componentId: string;
  /** The limiter's key: `default` or `<label>:<value>`. */
  readonly key: string;
  /** Names one slot of a concurrency limiter; empty elsewhere. */
  readonly id: string;
  readonly amount: number;
}

/** What one limiter said about one flow. */
export interface Decision {
  readonly component: Component;
  readonly outcome: "granted" | "refused" | "undecided";
  /** True when this decision turns the flow away. */
  readonly dropped: boolean;
  /** The label that the limiter is keyed by was missing: accepted, nothing taken. */
  readonly keyMissing: boolean;
  /** As reported: `default`, `<key>:<value>` or empty. */
  readonly label: string;
  /** Value of the key that ends `label`; what comes before it is the same in all decisions of the component. */
  readonly value?: string | undefined;
  readonly remaining: number;
  readonly current: number;
  readonly consumed: number;
  /** Until a retry may help, in ms; -1 where the component reports no wait at all. */
  readonly waitMs: number;
  /** Slot id of a concurrency limiter; empty elsewhere. */
  readonly requestId: string;
  /** What has to be given back when the flow is turned away after all. */
  readonly grant: Grant | undefined;
  /** The mode that answered when the outcome was undecided. */
  readonly failure: FailureMode | undefined;
}

/** The answer. A refusal is not an error. */
export interface Verdict {
  readonly accepted: boolean;
  readonly reason: RejectReason;
  /** HTTP status for the refused caller; 0 means that nothing names one: 403. */
  readonly deniedStatus: number;
  /** Longest wait among those that refused, ms; 0 when none. */
  readonly waitMs: number;
  /** In component order within a stage, stages in their order. */
  readonly decisions: readonly Decision[];
  readonly classifiers: readonly ClassifierInfo[];
  readonly fluxMeters: readonly string[];
  /** The final labels, classifier labels included. */
  readonly labels: Labels;
  /** Unix ms. */
  readonly start: number;
  readonly end: number;
}

type Outcome<T> = { readonly value: T } | { readonly thrown: unknown };

/** An answer that must wait. Settles once; cheaper than a promise and can be told to give up. */
export class Pending<T> {
  #outcome: Outcome<T> | undefined;
  #settled: ((value: T) => void) | undefined;
  #failed: ((thrown: unknown) => void) | undefined;
  #cancelled: (() => void) | undefined;

  /** `cancelled` runs when whoever waits gives up; it should settle this with what local state says. */
  constructor(cancelled?: () => void) {
    this.#cancelled = cancelled;
  }

  settle(value: T): void {
    this.#end({ value });
  }

  /** There will be no answer: something broke. */
  fail(thrown: unknown): void {
    this.#end({ thrown });
  }

  /** Calls one of the two back once, at once when the answer is already there. One waiter only. */
  whenSettled(settled: (value: T) => void, failed: (thrown: unknown) => void): void {
    this.#settled = settled;
    this.#failed = failed;
    this.#tell();
  }

  cancel(): void {
    const cancelled = this.#cancelled;
    this.#cancelled = undefined;
    if (this.#outcome === undefined) cancelled?.();
  }

  #end(outcome: Outcome<T>): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#cancelled = undefined;
    this.#tell();
  }

  #tell(): void {
    const outcome = this.#outcome;
    const [settled, failed] = [this.#settled, this.#failed];
    if (outcome === undefined || settled === undefined) return;
    this.#settled = undefined;
    this.#failed = undefined;
    if ("value" in outcome) settled(outcome.value);
    else failed?.(outcome.thrown);
  }
}
