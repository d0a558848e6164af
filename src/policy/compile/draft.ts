// Drafts: circuits between document and plan, with composites expanded and signals still known by name. The
// functions below are the vocabulary in which the files of `composites/` are written.

import type { Configs, Kind } from "#circuit/plan.ts";
import type { AgentConfig } from "../compiled.ts";
import type { InPort } from "../language/ports.ts";
import { reading } from "../language/ports.ts";

/** The value that an in-port reads: a signal of its circuit by name, a constant (NaN is invalid), or undefined for nothing. */
export type Source = string | number | undefined;
export type Sources = Readonly<Record<string, Source | readonly Source[]>>;
/** The signal that each out-port writes; undefined where it is unconnected. */
export type Targets = Readonly<Record<string, string | undefined>>;

export type LeafDraft = {
  readonly [K in Kind]: {
    readonly is: "leaf";
    readonly kind: K;
    readonly config: Configs[K];
    readonly ins: Sources;
    readonly outs: Targets;
    /** Replaces `config` in the leaf's identity where `config` contains the leaf's own id. */
    readonly same?: unknown;
    /** The query, selectors or object that it measures or acts on. Part of the identity of the circuits around it. */
    readonly about?: unknown;
    /** The configuration for agents, if they carry the component out. */
    readonly agentConfig?: AgentConfig;
  };
}[Kind];

export interface CircuitDraft {
  readonly is: "circuit";
  /** `nested_circuit`, or the language's name of the composite. */
  readonly kind: string;
  readonly ins: ReadonlyMap<string, Source>;
  readonly outs: ReadonlyMap<string, string | undefined>;
  readonly parts: readonly Draft[];
}

/** Makes the leaf or circuit for the id that its position gives it. */
export type Draft = (id: string) => LeafDraft | CircuitDraft;

/** The policy that the circuit belongs to; queries of composites select its metrics. */
export interface Owner {
  readonly policyName: string;
  readonly policyHash: string;
}

export function sourceOf(port: InPort | undefined): Source {
  if (port?.signal_name !== undefined) return port.signal_name;
  return port?.constant_signal && reading(port.constant_signal);
}

export function leaf<K extends Kind>(
  kind: K,
  config: Configs[K],
  ins: Sources,
  outs: Targets,
): Draft {
  // `config` has the type of `kind`, so this is a member of the union.
  const draft = { is: "leaf", kind, config, ins, outs } as LeafDraft;
  return () => draft;
}

type InPorts = Readonly<Record<string, InPort | undefined>>;
type OutPorts = Readonly<Record<string, { readonly signal_name?: string | undefined } | undefined>>;

/** A composite: its ports as the document connects them, and the components inside. */
export function composite(
  kind: string,
  ports: { readonly in_ports?: InPorts | undefined; readonly out_ports?: OutPorts | undefined },
  parts: (id: string) => readonly Draft[],
): Draft {
  const ins = Object.entries(ports.in_ports ?? {}).map(
    ([port, from]) => [port, sourceOf(from)] as const,
  );
  const outs = Object.entries(ports.out_ports ?? {}).map(
    ([port, to]) => [port, to?.signal_name] as const,
  );
  return (id) => ({
    is: "circuit",
    kind,
    ins: new Map(ins),
    outs: new Map(outs),
    parts: parts(id),
  });
}

export function ingress(port_name: string, signal: string): Draft {
  return leaf("nested_signal_ingress", { port_name }, {}, { signal });
}

export function egress(port_name: string, signal: string): Draft {
  return leaf("nested_signal_egress", { port_name }, { signal }, {});
}

export function arithmetic(lhs: Source, operator: string, rhs: Source, output: string): Draft {
  return leaf("arithmetic_combinator", { operator }, { lhs, rhs }, { output });
}

export function unary(operator: string, input: Source, output: string): Draft {
  return leaf("unary_operator", { operator }, { input }, { output });
}

/** Combines several signals into one. */
export function fold(
  kind: "max" | "min" | "and" | "or" | "first_valid",
  inputs: readonly Source[],
  output: string,
): Draft {
  return leaf(kind, {}, { inputs }, { output });
}

export function inverter(input: Source, output: string): Draft {
  return leaf("inverter", {}, { input }, { output });
}

/** A decider without delays. */
export function decider(lhs: Source, operator: string, rhs: Source, output: string): Draft {
  return leaf("decider", { operator, true_for: 0, false_for: 0 }, { lhs, rhs }, { output });
}

export function switcher(
  { by, on, off }: { readonly by: Source; readonly on: Source; readonly off: Source },
  output: string,
): Draft {
  return leaf("switcher", {}, { on_signal: on, off_signal: off, switch: by }, { output });
}

export function holder(hold_for: number, input: Source, reset: Source, output: string): Draft {
  return leaf("holder", { hold_for }, { input, reset }, { output });
}

export function integrator(
  config: Configs["integrator"],
  ins: {
    readonly input: Source;
    readonly reset?: Source;
    readonly max?: Source;
    readonly min?: Source;
  },
  output: string,
): Draft {
  return leaf("integrator", config, { ...ins }, { output });
}

export function alerter(parameters: Configs["alerter"]["parameters"], signal: Source): Draft {
  return leaf("alerter", { parameters }, { signal }, {});
}

export function dryRun(
  of: { readonly dry_run: boolean; readonly dry_run_config_key: string },
  output: string,
): Draft {
  const config = { constant_output: of.dry_run, config_key: of.dry_run_config_key };
  return leaf("bool_variable", config, {}, { output });
}

/** Scrape interval of agents' metrics; composites need not query more often. */
const SCRAPE_MS = 10_000;

/** Queries a metric of agents about a composite. `same` identifies the query without the component's id. */
export function measured(same: string, query_string: string, output: string): Draft {
  const config = { query_string, evaluation_interval: SCRAPE_MS };
  return () => ({ is: "leaf", kind: "promql", config, ins: {}, outs: { output }, same });
}

export function labelText(labels: Readonly<Record<string, string>>): string {
  // Every JSON string literal is a PromQL string literal with the same value.
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return pairs.join(",");
}
