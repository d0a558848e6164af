// The plain rules that plans are compiled from. `policy` produces them from documents, `store/rules.ts`
// carries them as wrapper messages. Durations are milliseconds; absent text is "".

import type { FailureMode } from "./flow.ts";

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

/** AND of its parts; an empty matcher matches everything. */
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

interface ComponentRule {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly selectors: readonly SelectorRule[];
  readonly onFailure: FailureMode;
  /** 0 when the policy names none. */
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
  /** State unused for this long is dropped; 0 keeps it for ever. */
  readonly maxIdleMs: number;
  /** 0 when lazy synchronisation is off. Engines that count in process are exact and ignore it. */
  readonly lazySyncs: number;
}

export interface ConcurrencyLimiterRule extends ComponentRule {
  readonly kind: "concurrency_limiter";
  readonly limitByLabelKey: string;
  readonly tokensLabelKey: string;
  /** A slot that nobody ends is free again after this long. */
  readonly maxInflightMs: number;
  readonly maxIdleMs: number;
}

export interface SamplerRule extends ComponentRule {
  readonly kind: "sampler";
  readonly sessionLabelKey: string;
  readonly rampMode: boolean;
}

export type LimiterRule = RateLimiterRule | ConcurrencyLimiterRule | SamplerRule;

export type ExtractorRule =
  | { readonly kind: "from"; readonly from: string }
  | { readonly kind: "json"; readonly from: string; readonly pointer: string }
  | { readonly kind: "address"; readonly from: string }
  | { readonly kind: "jwt"; readonly from: string; readonly pointer: string }
  | { readonly kind: "path_templates"; readonly templates: Readonly<Record<string, string>> };

export interface LabelRule {
  readonly label: string;
  readonly telemetry: boolean;
  readonly extractor: ExtractorRule;
}

export interface ClassifierRule {
  readonly kind: "classifier";
  readonly policyName: string;
  readonly policyHash: string;
  readonly index: number;
  readonly selectors: readonly SelectorRule[];
  readonly rules: readonly LabelRule[];
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

/** Numbers for one limiter, made by the controller. Apply only to the policy version they name. */
interface DecisionRule {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

export interface RateLimiterDecision extends DecisionRule {
  readonly kind: "rate_limiter";
  readonly bucketCapacity: number;
  readonly fillAmount: number;
  readonly passThrough: boolean;
}

export interface ConcurrencyLimiterDecision extends DecisionRule {
  readonly kind: "concurrency_limiter";
  readonly maxConcurrency: number;
  readonly passThrough: boolean;
}

export interface SamplerDecision extends DecisionRule {
  readonly kind: "sampler";
  /** 0 to 100. */
  readonly acceptPercentage: number;
  /** Session label values that always pass. */
  readonly passThroughLabelValues: readonly string[];
}

export type LimiterNumbers = RateLimiterDecision | ConcurrencyLimiterDecision | SamplerDecision;
