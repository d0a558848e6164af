// Input options and results of the compiler. The controller, the simulation and the command line read the
// results.

import type { DecisionKind } from "#circuit/decision.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import type { Dialect } from "#promql/result.ts";
import type { Finding } from "./document/finding.ts";
import type { Target } from "./document/targets.ts";
import type { Position } from "./document/tree.ts";
import type { Warning } from "./document/warning.ts";
import type { Policy } from "./language/policy.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

/** SHA-256 as lower-case hex. Passed in because this room imports nothing of Node. */
export type Digest = (text: string) => string;

/** The settings of a controller on which its policies depend. */
export interface CompileSettings {
  /** The evaluator that will answer queries: a Prometheus server, or Sluice's own evaluator over its own metrics. */
  readonly queries: Dialect;
  /** Agent group of selectors that name none; the default of the language unless given. */
  readonly defaultGroup?: string;
}

export interface CompileOptions extends CompileSettings {
  readonly digest: Digest;
  /** The namespace to whose services, objects and names the policy is confined; absent where it may reach everything. */
  readonly namespace?: string | undefined;
}

/** Kinds of configuration that a controller publishes for agents, as they are called in store keys. */
export type ConfigKind = DecisionKind | "classifiers" | "flux_meter" | "infra_meter";

/** The configuration of one component or resource for the agents of some groups. */
export interface AgentConfig {
  readonly kind: ConfigKind;
  /** Component id, classifier index, or name of the flux or infra meter. */
  readonly name: string;
  /** Without duplicates, in the order in which the selectors name them. */
  readonly agentGroups: readonly string[];
  /** The language's message as protojson with proto field names; defaults filled in, absent parts left out. */
  readonly message: JsonObject;
}

/** A component that reads a label, and what for: to tell flows apart, or as the number of tokens. */
export interface LimiterLabel {
  readonly componentId: string;
  readonly use: "key" | "tokens";
}

/** A Kubernetes object that a policy scales. */
export interface ScaledObject {
  /** Group and version, such as `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** A name that something else must define or use. */
export interface Need {
  readonly kind:
    | "label"
    | "matched_label"
    | "cost_label"
    | "metric"
    | "flux_meter"
    | "control_point"
    | "agent_group"
    | "scaled_object"
    | "target";
  readonly name: string;
  /** Only for a control point. */
  readonly agentGroup?: string;
  /** Only for a label. */
  readonly readBy?: LimiterLabel;
  /** Present only for a scaled object. */
  readonly object?: ScaledObject;
  /** True if its component is in a dry run or may be switched to one, and so scales nothing. Only for a scaled object. */
  readonly dryRun?: boolean;
  /** Present only for a target, whose name is that of its control point. */
  readonly target?: Target;
  readonly at: Position;
  readonly path: string;
}

/** The names that a policy defines for itself and for all others. */
export interface Supply {
  /** Labels that the classifiers of the policy set. */
  readonly labels: readonly string[];
  readonly fluxMeters: readonly string[];
}

export interface CompiledPolicy {
  /** The text that it comes from, as messages name it: a file's path. */
  readonly source: string;
  readonly name: string;
  /** Identifies this version of the policy: equal for documents with the same meaning. */
  readonly hash: string;
  readonly at: Position;
  /** The validated document. The compiler never changes it. */
  readonly document: Policy;
  /** From the Kubernetes object around the policy; undefined when that has none. */
  readonly dynamicConfig: JsonObject | undefined;
  /** Undefined when nothing would ever run: without components, or with an evaluation interval of 0s. */
  readonly circuit: CircuitPlan | undefined;
  readonly configs: readonly AgentConfig[];
  /** Those that the document alone shows. They are also in the report that was passed to the compiler. */
  readonly warnings: readonly Warning[];
  /** The names that other policies, or measurements, must define for this one to do what it says. */
  readonly needs: readonly Need[];
  readonly supply: Supply;
}

export type Compilation =
  | { readonly ok: true; readonly policy: CompiledPolicy }
  | {
      readonly ok: false;
      readonly findings: readonly Finding[];
      /** The validated document, where only its circuit or its resources cannot be used. */
      readonly document?: Policy;
    };
