// The glossary of one check: the request (Flow), the answer (Verdict), the decision of each limiter (Decision), and an
// answer that has not come yet (Pending). Enum numbers are those of the wire format.

import type { FailureMode } from "#base/failure-mode.ts";
import type { Held } from "#base/handler.ts";
import type { Refusal } from "#base/http/refusal.ts";
import type { LabelSource, Labels } from "./label.ts";
import type { DecisionDetail, LimiterKind } from "./rules.ts";

/** The kind of caller: proxies and middleware describe HTTP requests, SDKs send labels only. */
export type ControlPointType = "http" | "feature";

/** Longest wait of a check that has no deadline, ms. Queues may have a timeout of their own. */
export const LONGEST_WAIT_MS = 10_000;

/** One end of the connection that carried the request. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** The HTTP request under evaluation, as classifiers read it. Its bytes may be read on demand. */
export interface HttpAttributes {
  readonly method: string;
  /** Request target: query included, not decoded. */
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly protocol: string;
  readonly body: string;
  /** True if `body` is only the beginning of what was sent. */
  readonly bodyCut: boolean;
  /** Length of the body in bytes as the caller states it; -1 when unknown. */
  readonly size: number;
  /** The proxy's id of the request; empty for other callers. */
  readonly id: string;
  /** Value of a header by its name in lower case, however it was received; repeated headers are joined with `,`. */
  header(name: string): string | undefined;
  /**
   * A value of the proxy's dynamic metadata by its namespace and keys, joined by dots: text as it is, anything else as
   * JSON. Undefined where there is none.
   */
  metadata(names: string): string | undefined;
  readonly source: Endpoint | undefined;
  readonly destination: Endpoint | undefined;
}

/** One request that asks to pass. Borrowed until its verdict is made: callers reuse the object for the next one. */
export interface Flow {
  readonly controlPoint: string;
  readonly type: ControlPointType;
  /** Services the flow belongs to; empty when unknown. */
  readonly services: readonly string[];
  readonly labels: LabelSource;
  /** Absent when the caller described no HTTP request; classifiers are then skipped. */
  readonly http: HttpAttributes | undefined;
  /** The address from which the check came. It stands for the source where the check describes none. */
  readonly peer?: string;
  readonly rampMode: boolean;
  /** The caller will end the flow itself, so its access log record must not. */
  readonly expectEnd: boolean;
  /** The caller's deadline on `Clock.now()`; Infinity when there is none. */
  readonly deadline: number;
  /** Estimated bytes of memory that the flow occupies while it waits; absent where labels and body are all of it. */
  readonly size?: number;
}

/**
 * Why an agent sheds a check: its event loop is late, too many checks are in progress, or the caller takes more than its
 * fair share of the time while the event loop is late.
 */
export const SHED_CAUSES = ["delay", "in_progress", "cost"] as const;
export type ShedCause = (typeof SHED_CAUSES)[number];

export const RejectReason = {
  none: 0,
  rateLimited: 1,
  noTokens: 2,
  notSampled: 3,
  noMatchingRamp: 4,
} as const;
export type RejectReason = (typeof RejectReason)[keyof typeof RejectReason];

/** Identifies one component of one version of one policy. The same object for the life of a plan. */
export interface Component {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly kind: LimiterKind;
  /** Configured HTTP status of a refusal; 0 leaves it to the stage. */
  readonly deniedStatus: number;
  /** Answers when the component is undecided. */
  readonly onFailure: FailureMode;
}

/** The tokens or the slot that a limiter gave to a flow. Another connection or agent can give it back. */
export interface Grant {
  readonly policyName: string;
  readonly componentId: string;
  /** The limiter's key: `default` or `<label>:<value>`. */
  readonly key: string;
  /** Identifies one slot of a concurrency limiter; empty elsewhere. */
  readonly id: string;
  readonly amount: number;
}

/** Labels that a flow lacks, as bits of a number. */
export const Missing = {
  nothing: 0,
  /** The key label: `on_missing_label` answered, and nothing was taken. */
  key: 1,
  /** The key label, but the flow was judged under the default key. */
  defaultKey: 2,
  /** The label with the number of tokens: the flow counts as one token. */
  tokens: 4,
} as const;

/** The decision of one limiter about one flow: a part common to all kinds, and the detail of its kind. */
export interface Decision<Detail extends DecisionDetail = DecisionDetail> {
  readonly component: Component;
  readonly outcome: "granted" | "refused" | "undecided";
  /** True when this decision refuses the flow. */
  readonly dropped: boolean;
  /** Labels that the limiter reads and the flow lacks: a sum of numbers of `Missing`. */
  readonly missing: number;
  /** Milliseconds until a retry may succeed; -1 when the component reports no wait at all. */
  readonly waitMs: number;
  /** The `id` of the flow's grant; undefined when it took nothing that could be given back. */
  readonly grantId: string | undefined;
  /** The failure mode that answered; undefined when the limiter decided itself. */
  readonly failure: FailureMode | undefined;
  readonly detail: Detail;
}

/** The grant of a decision. It is built on demand, because hardly any decision is taken back. */
export function grantOf({ component, grantId, detail }: Decision): Grant | undefined {
  if (grantId === undefined || !("consumed" in detail)) return undefined;
  const { policyName, componentId } = component;
  return { policyName, componentId, key: detail.label, id: grantId, amount: detail.consumed };
}

type AllOf<Union> = (Union extends unknown ? (one: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

/** Detail of a decision whose limiter did not answer; valid for every kind. */
export const NO_DETAIL: AllOf<DecisionDetail> = Object.freeze({
  label: "",
  value: undefined,
  remaining: 0,
  current: 0,
  consumed: 0,
  requestId: "",
  workload: "",
  priority: 0,
});

/** Result of one run of one classifier. The same object per error and plan, so writers may keep its encoded form. */
export interface ClassifierInfo {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: ClassifierError;
  /** Why the source of one of its labels could not be read; undefined if all could. */
  readonly unreadable: string | undefined;
}

export const ClassifierError = {
  none: 0,
  evalFailed: 1,
  emptyResultset: 2,
  ambiguousResultset: 3,
  multiExpression: 4,
  expressionNotMap: 5,
} as const;
export type ClassifierError = (typeof ClassifierError)[keyof typeof ClassifierError];

/** The answer to one check. A refusal is not an error. */
export interface Verdict {
  readonly accepted: boolean;
  readonly reason: RejectReason;
  /** HTTP status for the refused caller; 0 without one in component and stage. */
  readonly deniedStatus: number;
  /** Why the flow was refused before any rule judged it; undefined otherwise. */
  readonly refusal: Refusal | undefined;
  /** Why failure modes answered instead of rules; undefined otherwise. */
  readonly shed: ShedCause | undefined;
  /** Longest wait among the decisions that refused, ms; 0 when none reports a wait. */
  readonly waitMs: number;
  /** In the order of stages, and of components within a stage. */
  readonly decisions: readonly Decision[];
  readonly classifiers: readonly ClassifierInfo[];
  readonly fluxMeters: readonly string[];
  /** The final labels, classifier labels included. */
  readonly labels: Labels;
  /** Releases the slots of the flow if the caller never gets the reply; undefined without slots. */
  readonly held: Held | undefined;
  /** Identifies the estimates of the flow when it ends; empty where no limiter settles anything. */
  readonly reservationId: string;
  /** Identifies this verdict in replies and records: twelve characters of base64url. */
  readonly decisionId: string;
  /** Unix ms. */
  readonly start: number;
  readonly end: number;
}

/** Identifies one concurrency slot, as the reply to its check did. */
export interface SlotRef {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly label: string;
  readonly requestId: string;
  readonly tokens: number;
}

/** Result of giving one slot back. */
export interface SlotReturn {
  readonly returned: boolean;
  /** The caller's mistake; empty for success and for an unknown or expired slot. */
  readonly error: string;
}

/** The end of a flow, as its caller or its access log reports it. */
export interface FlowEnd {
  /** As the reply to the check named it. */
  readonly reservationId: string;
  /** Tokens that the flow cost, finite and >= 0; undefined where the estimate was right. */
  readonly cost: number | undefined;
  /** HTTP status of the response; 0 where there is none. */
  readonly status: number;
}

/**
 * The result of settling a flow. `unknown`: the reservation was settled before, or its time is over. `elsewhere`: another
 * agent made it, or this one before a restart.
 */
export const SETTLEMENTS = ["settled", "unknown", "elsewhere"] as const;
export type Settlement = (typeof SETTLEMENTS)[number];

type Outcome<T> = { readonly value: T } | { readonly thrown: unknown };

/** An answer that has not come yet. It settles once, costs less than a promise, and can be cancelled. */
export class Pending<T> {
  #outcome: Outcome<T> | undefined;
  #settled: ((value: T) => void) | undefined;
  #failed: ((thrown: unknown) => void) | undefined;
  #cancelled: (() => void) | undefined;

  /** `cancelled` runs when the waiting side gives up. It should settle this from local state. */
  constructor(cancelled?: () => void) {
    this.#cancelled = cancelled;
  }

  settle(value: T): void {
    this.#end({ value });
  }

  /** Ends the wait without an answer, because something threw. */
  fail(thrown: unknown): void {
    this.#end({ thrown });
  }

  /** Calls one of the two once, at once if the answer is there. Supports one listener. */
  whenSettled(settled: (value: T) => void, failed: (thrown: unknown) => void): void {
    this.#settled = settled;
    this.#failed = failed;
    this.#notify();
  }

  /** Applies `to`, which may wait as well, to the answer. Takes the place of the listener. */
  chain<U>(to: (value: T) => U | Pending<U>): Pending<U> {
    let source: { cancel(): void } = this;
    const later = new Pending<U>(() => source.cancel());
    const failed = (thrown: unknown) => later.fail(thrown);
    this.whenSettled((value) => {
      try {
        const next = to(value);
        if (!(next instanceof Pending)) {
          later.settle(next);
          return;
        }
        source = next;
        next.whenSettled((last) => later.settle(last), failed);
      } catch (thrown) {
        later.fail(thrown);
      }
    }, failed);
    return later;
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
    this.#notify();
  }

  #notify(): void {
    const outcome = this.#outcome;
    const [settled, failed] = [this.#settled, this.#failed];
    if (outcome === undefined || settled === undefined) return;
    this.#settled = undefined;
    this.#failed = undefined;
    if ("value" in outcome) settled(outcome.value);
    else failed?.(outcome.thrown);
  }
}

/** The flow at the head of a queue, as counter engines see it. */
export interface InQueue {
  /** Tokens of the flows behind it, which are wanted next. */
  readonly behind: number;
  /** How early the queue asks, ms: as long as the last answer took. */
  readonly aheadMs: number;
}

/**
 * The answer for a queued flow. The queue answers before the caller's deadline, so the check sets no timer for it, and
 * cancels it once another limiter has refused the flow.
 */
export class Queued<T> extends Pending<T> {}
