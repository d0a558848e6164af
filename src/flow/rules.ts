// Plain data of each kind: the rules that plans are compiled from, the numbers that a controller decides for a limiter,
// and the details that a limiter's decisions report. `sync` reads rules and numbers from wrapper messages. Durations are
// milliseconds; absent text is "".

import type { FailureMode } from "#base/failure-mode.ts";

export interface Requirement {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  readonly values: readonly string[];
}

export type ExpressionRule =
  | { readonly kind: "not"; readonly of: ExpressionRule }
  | { readonly kind: "all" | "any"; readonly of: readonly ExpressionRule[] }
  | { readonly kind: "label_exists"; readonly label: string }
  | { readonly kind: "label_equals"; readonly label: string; readonly value: string }
  | { readonly kind: "label_matches"; readonly label: string; readonly regex: string };

/** Matches when all of its parts do; an empty matcher matches everything. */
export interface MatcherRule {
  readonly labels: Readonly<Record<string, string>>;
  readonly list: readonly Requirement[];
  readonly expression: ExpressionRule | undefined;
}

export interface SelectorRule {
  readonly controlPoint: string;
  readonly agentGroup: string;
  /** A service name, or `any`. */
  readonly service: string;
  readonly matcher: MatcherRule;
}

/**
 * The default failure mode of a kind. A ramp lets nothing pass, because it guards features that are not trusted yet. The
 * kinds that count do so in process where shared counters do not answer; the others let flows pass.
 */
export function usualFailureMode(kind: LimiterKind): FailureMode {
  if (kind === "sampler" || kind === "load_scheduler") return "open";
  return kind === "ramp_sampler" ? "closed" : "local";
}

export const MISSING_LABEL_MODES = ["pass", "refuse", "default_key"] as const;
/** The treatment of a flow that lacks the label that keys a limiter. */
export type MissingLabelMode = (typeof MISSING_LABEL_MODES)[number];

export const SESSION_HASHES = ["mixed", "fnv1a"] as const;
/** The hash by which samplers choose sessions. The reference implementation uses `fnv1a`. */
export type SessionHash = (typeof SESSION_HASHES)[number];

export const UNSETTLED_MODES = ["keep", "refund"] as const;
/** The end of a reservation that is not settled in time: its estimate stays spent, or is given back. */
export type UnsettledMode = (typeof UNSETTLED_MODES)[number];

/** A flow takes its estimated cost at the check, and its true cost is settled when it ends. */
export interface SettlementRule {
  /** Longest time from the check to the end of a flow. Above 0. */
  readonly timeoutMs: number;
  readonly unsettled: UnsettledMode;
  /** HTTP statuses whose flows cost nothing: a class such as `5xx`, or one status such as `429`. */
  readonly refundStatuses: readonly string[];
}

interface ComponentRule {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly selectors: readonly SelectorRule[];
  readonly onFailure: FailureMode;
  readonly onMissingLabel: MissingLabelMode;
  /** HTTP status of a refusal; 0 when the policy sets none. */
  readonly deniedStatus: number;
}

export interface RateLimiterRule extends ComponentRule {
  readonly kind: "rate_limiter";
  /** "" keeps one bucket for all flows. */
  readonly limitByLabelKey: string;
  readonly tokensLabelKey: string;
  readonly intervalMs: number;
  readonly continuousFill: boolean;
  readonly delayInitialFill: boolean;
  /** Only for engines that never drop idle keys on their own, see `BucketParams`. */
  readonly maxIdleMs: number;
  /** 0 when lazy synchronisation is off. Only shared engines use it. */
  readonly lazySyncs: number;
  /** Undefined where the tokens that a flow took are its final cost. */
  readonly settlement?: SettlementRule | undefined;
}

/** Bounds of an adaptive limit. `1 <= min <= start <= max`, all whole. */
export interface AdaptiveBounds {
  readonly min: number;
  readonly max: number;
  /** The limit of a new key, and of one that was idle. */
  readonly start: number;
  /** The limit is cut when the latency exceeds this multiple of the latency without a queue. Above 1. */
  readonly tolerance: number;
}

export interface ConcurrencyLimiterRule extends ComponentRule {
  readonly kind: "concurrency_limiter";
  readonly limitByLabelKey: string;
  readonly tokensLabelKey: string;
  /** A slot whose flow is never ended is freed after this time. */
  readonly maxInflightMs: number;
  readonly maxIdleMs: number;
  /** Bounds of an adaptive limit; undefined when the controller decides the limit. */
  readonly adaptive?: AdaptiveBounds | undefined;
}

export interface SamplerRule extends ComponentRule {
  readonly kind: "sampler";
  readonly sessionLabelKey: string;
  readonly rampMode: boolean;
  readonly hash: SessionHash;
}

/** Priority and cost of the flows of a workload. */
export interface WorkloadParameters {
  /** Above 0. */
  readonly priority: number;
  /** Tokens of a flow; 0 leaves them to estimates and labels. */
  readonly tokens: number;
  /** Longest time in the queue; undefined leaves it to the caller's deadline. */
  readonly queueTimeoutMs: number | undefined;
}

export interface WorkloadRule {
  /** "" for a workload that is named by its index. */
  readonly name: string;
  readonly matcher: MatcherRule;
  readonly parameters: WorkloadParameters;
}

/** The workload of flows that match no workload of their scheduler. */
export const DEFAULT_WORKLOAD = "default";

/** The queue of a scheduler. */
export interface SchedulerRule {
  /** A flow belongs to the first workload that matches. */
  readonly workloads: readonly WorkloadRule[];
  /** Parameters of flows that match no workload. */
  readonly defaultParameters: WorkloadParameters;
  /** A waiting flow is decided this time before its caller's deadline. */
  readonly deadlineMarginMs: number;
  readonly tokensLabelKey: string;
  readonly priorityLabelKey: string;
  readonly workloadLabelKey: string;
  readonly fairnessLabelKey: string;
}

/** The buckets of a rate limiter, with a queue for each. */
export interface QuotaSchedulerRule extends Omit<RateLimiterRule, "kind" | "tokensLabelKey"> {
  readonly kind: "quota_scheduler";
  readonly scheduler: SchedulerRule;
}

/** The slots of a concurrency limiter, with a queue for each key. */
export interface ConcurrencySchedulerRule
  extends Omit<ConcurrencyLimiterRule, "kind" | "tokensLabelKey"> {
  readonly kind: "concurrency_scheduler";
  readonly scheduler: SchedulerRule;
}

/** One queue, which lets a share of the measured rate pass. */
export interface LoadSchedulerRule extends ComponentRule {
  readonly kind: "load_scheduler";
  readonly scheduler: SchedulerRule;
}

export type LimiterRule =
  | RateLimiterRule
  | ConcurrencyLimiterRule
  | SamplerRule
  | QuotaSchedulerRule
  | ConcurrencySchedulerRule
  | LoadSchedulerRule;

/** Number of bits of a whole address. */
export const WHOLE_IPV4 = 32;
export const WHOLE_IPV6 = 128;

/** One end of the connection, as text. */
export interface AddressRule {
  readonly from: string;
  /** True if the port follows the address; only for whole addresses. */
  readonly port: boolean;
  /** Number of bits that are kept. */
  readonly ipv4Prefix: number;
  readonly ipv6Prefix: number;
}

export type ExtractorRule =
  | { readonly kind: "from"; readonly from: string }
  | { readonly kind: "json"; readonly from: string; readonly pointer: string }
  | { readonly kind: "form"; readonly from: string; readonly name: string }
  | ({ readonly kind: "address" } & AddressRule)
  | { readonly kind: "jwt"; readonly from: string; readonly pointer: string }
  | { readonly kind: "path_templates"; readonly templates: Readonly<Record<string, string>> };

export interface LabelRule {
  readonly label: string;
  readonly telemetry: boolean;
  /** Value of the label where its source cannot be read; "" leaves the flow without the label. */
  readonly unreadableValue: string;
  readonly extractor: ExtractorRule;
}

export interface ClassifierRule {
  readonly kind: "classifier";
  readonly policyName: string;
  readonly policyHash: string;
  readonly index: number;
  readonly selectors: readonly SelectorRule[];
  readonly rules: readonly LabelRule[];
  /** Labels of the classifier's Rego module, which is not run. Each run reports an error, and the rules still apply. */
  readonly rego?: readonly string[];
}

export type BucketsRule =
  | { readonly kind: "static"; readonly bounds: readonly number[] }
  | {
      readonly kind: "linear";
      readonly start: number;
      readonly width: number;
      readonly count: number;
    }
  | {
      readonly kind: "exponential";
      readonly start: number;
      readonly factor: number;
      readonly count: number;
    }
  | {
      readonly kind: "exponential_range";
      readonly min: number;
      readonly max: number;
      readonly count: number;
    };

export interface FluxMeterRule {
  readonly kind: "flux_meter";
  readonly policyName: string;
  readonly name: string;
  readonly attributeKey: string;
  readonly buckets: BucketsRule;
  readonly selectors: readonly SelectorRule[];
}

export type Rule = LimiterRule | ClassifierRule | FluxMeterRule;

/** Numbers that the controller decides for one limiter. They apply only to the policy version that they name. */
interface ComponentNumbers {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  /** The failure mode that set these numbers because of an invalid signal; absent when the signals are valid. */
  readonly failure?: FailureMode | undefined;
}

export interface RateLimiterNumbers extends ComponentNumbers {
  readonly kind: "rate_limiter";
  readonly bucketCapacity: number;
  readonly fillAmount: number;
  readonly passThrough: boolean;
}

export interface ConcurrencyLimiterNumbers extends ComponentNumbers {
  readonly kind: "concurrency_limiter";
  readonly maxConcurrency: number;
  readonly passThrough: boolean;
}

export interface SamplerNumbers extends ComponentNumbers {
  readonly kind: "sampler";
  /** 0 to 100. */
  readonly acceptPercentage: number;
  /** Session label values that always pass. */
  readonly passThroughLabelValues: readonly string[];
}

export interface QuotaSchedulerNumbers extends Omit<RateLimiterNumbers, "kind"> {
  readonly kind: "quota_scheduler";
}

export interface ConcurrencySchedulerNumbers extends Omit<ConcurrencyLimiterNumbers, "kind"> {
  readonly kind: "concurrency_scheduler";
}

/** Numbers of limiters that count in buckets, and of those that count in slots. */
export type BucketNumbers = RateLimiterNumbers | QuotaSchedulerNumbers;
export type SlotNumbers = ConcurrencyLimiterNumbers | ConcurrencySchedulerNumbers;

export interface LoadSchedulerNumbers extends ComponentNumbers {
  readonly kind: "load_scheduler";
  /** The part of the measured rate of tokens that may pass. */
  readonly loadMultiplier: number;
  readonly passThrough: boolean;
  /** Mean tokens of the flows of a workload, by its label. */
  readonly tokensByWorkload: ReadonlyMap<string, number>;
  /** Unix ms. Afterwards the numbers are invalid. */
  readonly validUntil: number;
}

export type LimiterNumbers =
  | RateLimiterNumbers
  | ConcurrencyLimiterNumbers
  | SamplerNumbers
  | QuotaSchedulerNumbers
  | ConcurrencySchedulerNumbers
  | LoadSchedulerNumbers;

/** The details of a decision, by the kind of its limiter. */
export interface DecisionDetails {
  rate_limiter: TokenDetail;
  concurrency_limiter: SlotDetail;
  sampler: LabelDetail;
  ramp_sampler: LabelDetail;
  load_scheduler: WorkloadDetail;
  quota_scheduler: WorkloadDetail;
  concurrency_scheduler: WorkloadSlotDetail;
}

export type LimiterKind = keyof DecisionDetails;
export type DecisionDetail = DecisionDetails[LimiterKind];

/** The label that a limiter is keyed by. */
export interface LabelDetail {
  /** As reported: `default`, `<key>:<value>` or empty. */
  readonly label: string;
  /** Value that ends `label`. The part before it is the same in all decisions of the component. */
  readonly value: string | undefined;
}

/** Tokens of one key, after the decision. */
export interface TokenDetail extends LabelDetail {
  readonly remaining: number;
  readonly current: number;
  /** Tokens that this flow took and keeps. */
  readonly consumed: number;
}

export interface SlotDetail extends TokenDetail {
  /** Id of the slot; the caller ends the flow with it. */
  readonly requestId: string;
}

/** A decision of a scheduler. For a load scheduler, `label` is the workload. */
export interface WorkloadDetail extends TokenDetail {
  readonly workload: string;
  /** 0 for a flow that passed no queue. */
  readonly priority: number;
}

export interface WorkloadSlotDetail extends WorkloadDetail, SlotDetail {}
