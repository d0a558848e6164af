// Drafts of the components of a document: a leaf for each simple component, and the expansion of each
// composite.

import type { Configs } from "#circuit/plan.ts";
import type { Component, NestedCircuit } from "../language/policy.ts";
import type { InPort, OutPort } from "../language/ports.ts";
import { autoScaler } from "./composites/auto-scaler.ts";
import { LIMITERS } from "./composites/limiters.ts";
import { LOAD_SCHEDULERS } from "./composites/load-scheduler.ts";
import { podScaler } from "./composites/pod-scaler.ts";
import { SAMPLERS } from "./composites/sampler.ts";
import { type Draft, type LeafDraft, type Owner, type Source, sourceOf } from "./draft.ts";

/** Members of a component that hold a choice of components, or a circuit. */
type Choice = "nested_circuit" | "flow_control" | "auto_scale" | "query";
type Ports = "in_ports" | "out_ports";
type Member<K extends keyof Component> = NonNullable<Component[K]>;

/** Members whose fields, without the ports, are the configuration of the leaf of the same kind. */
type SimpleKind = {
  [K in Exclude<keyof Component, Choice>]: Omit<Member<K>, Ports> extends Configs[K] ? K : never;
}[Exclude<keyof Component, Choice>];

/** `component` has passed validation, so exactly one member is present. */
export function draftComponent(component: Component, owner: Owner): Draft {
  const { flow_control, auto_scale, query, nested_circuit } = component;
  if (nested_circuit !== undefined) return nestedCircuit(nested_circuit, owner);
  if (query?.promql !== undefined) {
    return simple("promql", query.promql, query.promql.query_string);
  }
  if (flow_control !== undefined) return draftChoice(FLOW_CONTROL, flow_control, owner);
  if (auto_scale !== undefined) return draftChoice(AUTO_SCALE, auto_scale, owner);
  for (const kind of Object.keys(component) as (keyof Component)[]) {
    const member = component[kind];
    // The members that are not simple were handled above.
    if (member !== undefined) return simple(kind as SimpleKind, member as SimpleComponent);
  }
  throw new Error("a component without a member passed validation");
}

type Drafts<C> = {
  [K in keyof C]-?: (component: NonNullable<C[K]>, owner: Owner) => Draft;
};

const FLOW_CONTROL: Readonly<Drafts<Member<"flow_control">>> = {
  ...LIMITERS,
  ...SAMPLERS,
  ...LOAD_SCHEDULERS,
};

const AUTO_SCALE: Readonly<Drafts<Member<"auto_scale">>> = {
  pod_scaler: podScaler,
  auto_scaler: autoScaler,
};

/** Drafts the one member of `choice` that is present. */
function draftChoice<C extends object>(drafts: Drafts<C>, choice: C, owner: Owner): Draft {
  for (const kind of Object.keys(drafts) as (keyof C)[]) {
    const component = choice[kind];
    if (component !== undefined && component !== null) return drafts[kind](component, owner);
  }
  throw new Error("a component without a member passed validation");
}

function nestedCircuit(
  { in_ports_map, out_ports_map, components }: NestedCircuit,
  owner: Owner,
): Draft {
  const ins = new Map([...in_ports_map].map(([port, from]) => [port, sourceOf(from)]));
  const outs = new Map([...out_ports_map].map(([port, to]) => [port, to.signal_name]));
  const parts = components.map((component) => draftComponent(component, owner));
  return () => ({ is: "circuit", kind: "nested_circuit", ins, outs, parts });
}

interface SimpleComponent {
  readonly in_ports?: Readonly<Record<string, InPort | readonly InPort[] | undefined>> | undefined;
  readonly out_ports?: Readonly<Record<string, OutPort | undefined>> | undefined;
}

/** A leaf whose configuration is all of the component's message except for the ports. */
function simple(kind: SimpleKind | "promql", member: SimpleComponent, about?: string): Draft {
  const { in_ports = {}, out_ports = {}, ...config } = member;
  const ins = mapValues(in_ports, (port): Source | readonly Source[] =>
    port === undefined || !isList(port) ? sourceOf(port) : port.map(sourceOf),
  );
  const outs = mapValues(out_ports, (port) => port?.signal_name);
  // The type `SimpleKind` guarantees that the configuration has the right form.
  const draft = { is: "leaf", kind, config, ins, outs, about } as unknown as LeafDraft;
  return () => draft;
}

function isList(port: InPort | readonly InPort[]): port is readonly InPort[] {
  return Array.isArray(port);
}

function mapValues<V, W>(of: Readonly<Record<string, V>>, map: (value: V) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value)]));
}
