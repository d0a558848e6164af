// What a document compiles to, and what the compiler may be told about the world. Everything after the
// compiler (controller, simulation, command line) reads these shapes.

import type { CircuitPlan } from "#circuit/plan.ts";
import type { Dialect } from "#promql/result.ts";
import type { Finding } from "./finding.ts";
import type { Policy } from "./language/policy.ts";
import type { Position } from "./tree.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

/** SHA-256 as lower-case hex. An argument because this room computes and does not reach out. */
export type Digest = (text: string) => string;

export interface CompileOptions {
  readonly digest: Digest;
  /** Whose queries: a Prometheus server's, or the ones that Sluice answers itself from its own meters. */
  readonly queries: Dialect;
}

/** The kinds of configuration that a controller leaves for agents, as in their keys. */
export const CONFIG_KINDS = [
  "rate_limiter",
  "quota_scheduler",
  "concurrency_limiter",
  "concurrency_scheduler",
  "load_scheduler",
  "sampler",
  "pod_scaler",
  "classifiers",
  "flux_meter",
  "infra_meter",
] as const;
export type ConfigKind = (typeof CONFIG_KINDS)[number];

/** One part of a policy for the agents of some groups. */
export interface AgentConfig {
  readonly kind: ConfigKind;
  /** Component id, classifier index or meter name. */
  readonly name: string;
  /** Distinct, in the order in which the selectors name them. */
  readonly agentGroups: readonly string[];
  /** The language's message as protojson with proto names, defaults filled in, absent parts left out. */
  readonly message: JsonObject;
}

export interface CompiledPolicy {
  readonly name: string;
  /** Names this version of the policy: equal for documents of equal meaning. */
  readonly hash: string;
  readonly at: Position;
  /** The judged document, never edited by the compiler. */
  readonly document: Policy;
  /** From the wrapper of the document; undefined where there is none. */
  readonly dynamicConfig: JsonObject | undefined;
  /** Undefined without components, or with an evaluation interval of 0s: nothing ever runs. */
  readonly circuit: CircuitPlan | undefined;
  readonly configs: readonly AgentConfig[];
}

/** What is doubted of a good policy stands in the report that the compiler was given. */
export type Compilation =
  | { readonly ok: true; readonly policy: CompiledPolicy }
  | { readonly ok: false; readonly findings: readonly Finding[] };
