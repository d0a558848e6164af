// Circuits on their way from a document to a plan: components as they are written down, composites already
// taken apart, signals still by name. The words below are those in which composites are drawn.

import type { Configs, Kind } from "#circuit/plan.ts";
import type { InPort } from "../language/ports.ts";
import { reading } from "../language/ports.ts";
import type { Actuating } from "./configs.ts";

/** What an in-port reads: a signal of its circuit, a constant (NaN is an invalid one), or nothing. */
export type Source = string | number | undefined;
export type Sources = Readonly<Record<string, Source | readonly Source[]>>;
/** Signals that out-ports write; undefined is unconnected. */
export type Targets = Readonly<Record<string, string | undefined>>;

export type LeafDraft = {
  readonly [K in Kind]: {
    readonly is: "leaf";
    readonly kind: K;
    readonly config: Configs[K];
    readonly ins: Sources;
    readonly outs: Targets;
    /** Stands for `config` in the leaf's identity where that names the place where the leaf stands. */
    readonly same?: unknown;
    /** What it measures or acts on (query, selectors, object): part of the identity of the circuits around. */
    readonly about?: unknown;
    readonly actuates?: Actuating;
  };
}[Kind];

export interface CircuitDraft {
  readonly is: "circuit";
  /** The language's name of it. */
  readonly kind: string;
  readonly ins: ReadonlyMap<string, Source>;
  readonly outs: ReadonlyMap<string, string | undefined>;
  readonly parts: readonly Draft[];
}

/** Drawn for the id at which it stands. */
export type Draft = (id: string) => LeafDraft | CircuitDraft;

/** Whose circuit it is, for the queries of composites. */
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
  // One kind and the configuration of that kind: the union's member by construction.
  const draft = { is: "leaf", kind, config, ins, outs } as LeafDraft;
  return () => draft;
}

type InPorts = Readonly<Record<string, InPort | undefined>>;
type OutPorts = Readonly<Record<string, { readonly signal_name?: string | undefined } | undefined>>;

/** A composite: its ports as the document has them (unconnected ones are not mapped), and what is inside. */
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

/** One result of several signals. */
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

/** Decides at once. */
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

/** Agents' metrics are scraped this often: composites ask no oftener. */
export const SCRAPE_MS = 10_000;

/** What agents measure of a composite; `same` names it without naming the place. */
export function measured(same: string, query_string: string, output: string): Draft {
  const config = { query_string, evaluation_interval: SCRAPE_MS };
  return () => ({ is: "leaf", kind: "promql", config, ins: {}, outs: { output }, same });
}

export function labelText(labels: Readonly<Record<string, string>>): string {
  // Texts of PromQL and of JSON agree on all that JSON writes.
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return pairs.join(",");
}
