// Components of a document as drafts: each leaf as it is, each composite taken apart.

import type { Configs } from "#circuit/plan.ts";
import type { Component, NestedCircuit } from "../language/policy.ts";
import type { InPort, OutPort } from "../language/ports.ts";
import { accepting } from "./composites/accepting.ts";
import { aiadLoadScheduler } from "./composites/aiad-load-scheduler.ts";
import { aimdLoadScheduler } from "./composites/aimd-load-scheduler.ts";
import { autoScaler } from "./composites/auto-scaler.ts";
import { loadRamp } from "./composites/load-ramp.ts";
import { loadScheduler } from "./composites/load-scheduler.ts";
import { podScaler } from "./composites/pod-scaler.ts";
import { rangeDrivenLoadScheduler } from "./composites/range-driven-load-scheduler.ts";
import { sampler } from "./composites/sampler.ts";
import { type Draft, type LeafDraft, type Owner, type Source, sourceOf } from "./draft.ts";

type Choice = "nested_circuit" | "flow_control" | "auto_scale" | "query";
type Ports = "in_ports" | "out_ports";
type Member<K extends keyof Component> = NonNullable<Component[K]>;

/** Members of a component whose fields without ports are the configuration of the leaf of that name. */
type Plain = {
  [K in Exclude<keyof Component, Choice>]: Omit<Member<K>, Ports> extends Configs[K] ? K : never;
}[Exclude<keyof Component, Choice>];

/** A judged component has one member. */
export function draftOf(component: Component, owner: Owner): Draft {
  const { flow_control, auto_scale, query, nested_circuit } = component;
  if (nested_circuit !== undefined) return nested(nested_circuit, owner);
  if (query?.promql !== undefined) {
    return written("promql", query.promql, query.promql.query_string);
  }
  const found =
    (flow_control && flowControl(flow_control, owner)) ?? (auto_scale && autoScale(auto_scale));
  if (found !== undefined) return found;
  for (const kind of Object.keys(component) as (keyof Component)[]) {
    const member = component[kind];
    // All members that are no leaves were looked at above.
    if (member !== undefined) return written(kind as Plain, member as Written);
  }
  throw new Error("a component without a member was not refused");
}

function flowControl(member: Member<"flow_control">, owner: Owner): Draft | undefined {
  const { rate_limiter, quota_scheduler, concurrency_limiter, concurrency_scheduler } = member;
  if (rate_limiter) return accepting({ kind: "rate_limiter", component: rate_limiter }, owner);
  if (quota_scheduler) {
    return accepting({ kind: "quota_scheduler", component: quota_scheduler }, owner);
  }
  if (concurrency_limiter) {
    return accepting({ kind: "concurrency_limiter", component: concurrency_limiter }, owner);
  }
  if (concurrency_scheduler) {
    return accepting({ kind: "concurrency_scheduler", component: concurrency_scheduler }, owner);
  }
  if (member.sampler) return sampler(member.sampler);
  if (member.load_ramp) return loadRamp(member.load_ramp);
  return loadControl(member, owner);
}

function loadControl(member: Member<"flow_control">, owner: Owner): Draft | undefined {
  const { aimd_load_scheduler: aimd, adaptive_load_scheduler: adaptive } = member;
  const { aiad_load_scheduler: aiad, range_driven_load_scheduler: range } = member;
  if (member.load_scheduler) return loadScheduler(member.load_scheduler, owner);
  if (aimd) return aimdLoadScheduler("aimd_load_scheduler", aimd, owner);
  if (adaptive) return aimdLoadScheduler("adaptive_load_scheduler", adaptive, owner);
  if (aiad) return aiadLoadScheduler(aiad, owner);
  return range && rangeDrivenLoadScheduler(range, owner);
}

function autoScale({ pod_scaler, auto_scaler }: Member<"auto_scale">): Draft | undefined {
  if (pod_scaler !== undefined) return podScaler(pod_scaler);
  const replicas = auto_scaler?.scaling_backend.kubernetes_replicas;
  return auto_scaler && replicas && autoScaler(auto_scaler, replicas);
}

function nested({ in_ports_map, out_ports_map, components }: NestedCircuit, owner: Owner): Draft {
  const ins = new Map([...in_ports_map].map(([port, from]) => [port, sourceOf(from)]));
  const outs = new Map([...out_ports_map].map(([port, to]) => [port, to.signal_name]));
  const parts = components.map((component) => draftOf(component, owner));
  return () => ({ is: "circuit", kind: "nested_circuit", ins, outs, parts });
}

interface Written {
  readonly in_ports?: Readonly<Record<string, InPort | readonly InPort[] | undefined>> | undefined;
  readonly out_ports?: Readonly<Record<string, OutPort | undefined>> | undefined;
}

/** A leaf as the document has it: its ports, and all else as its configuration. */
function written(kind: Plain | "promql", member: Written, about?: string): Draft {
  const { in_ports = {}, out_ports = {}, ...config } = member;
  const ins = mapValues(in_ports, (port): Source | readonly Source[] =>
    port === undefined || !isList(port) ? sourceOf(port) : port.map(sourceOf),
  );
  const outs = mapValues(out_ports, (port) => port?.signal_name);
  // The type `Plain` says that the configuration fits.
  const draft = { is: "leaf", kind, config, ins, outs, about } as unknown as LeafDraft;
  return () => draft;
}

function isList(port: InPort | readonly InPort[]): port is readonly InPort[] {
  return Array.isArray(port);
}

function mapValues<V, W>(of: Readonly<Record<string, V>>, map: (value: V) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value)]));
}
