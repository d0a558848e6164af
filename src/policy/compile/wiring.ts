// What is wrong with the wiring of a document and with its queries, by the places where it stands. Signals are
// known within their own circuit only; composites are whole by construction, so that their ports are all that
// is looked at.

import { judgeQuery } from "#promql/judge.ts";
import type { Dialect } from "#promql/result.ts";
import type { Refuse } from "../finding.ts";
import { type Component, component as table } from "../language/policy.ts";
import type { Path } from "../tree.ts";
import { quote } from "../tree.ts";
import { eachPort } from "./ports.ts";

export interface Wired {
  readonly components: readonly Component[];
  /** Where `components` stand. */
  readonly path: Path;
  readonly queries: Dialect;
}

export function judgeCircuit({ components, path, queries }: Wired, refuse: Refuse): void {
  judgeScope({ id: "root", components, path }, queries, refuse);
}

/** One circuit, without those inside. */
interface Scope extends Pick<Wired, "components" | "path"> {
  readonly id: string;
}

function judgeScope(scope: Scope, queries: Dialect, refuse: Refuse): void {
  const written = new Map<string, string>();
  const read: { readonly name: string; readonly path: Path }[] = [];
  for (const [at, component] of scope.components.entries()) {
    const id = `${scope.id}.${at}`;
    eachPort(table, component, [...scope.path, at], {
      in: ({ signal_name: name }, path) => {
        if (name !== undefined) read.push({ name, path });
      },
      out: ({ signal_name: name }, path) => {
        if (name === undefined) return;
        const first = written.get(name);
        if (first === undefined) written.set(name, id);
        else {
          const got = `signal ${name} of circuit ${scope.id} again (first: ${first})`;
          refuse(path, "each signal written once in its circuit", got);
        }
      },
    });
  }
  for (const { name, path } of read) {
    if (written.has(name)) continue;
    const wanted = `a signal that a component of circuit ${scope.id} writes`;
    refuse(path, wanted, `${scope.id} ${name}, which nobody writes`);
  }
  judgePorts(scope, refuse);
  for (const [at, { query, nested_circuit: nested }] of scope.components.entries()) {
    const path = [...scope.path, at];
    if (query?.promql !== undefined) {
      const where = [...path, "query", "promql", "query_string"];
      judgeText(query.promql.query_string, where, queries, refuse);
    }
    if (nested === undefined) continue;
    const inside = [...path, "nested_circuit"];
    const inner: Scope = {
      id: `${scope.id}.${at}`,
      components: nested.components,
      path: [...inside, "components"],
    };
    judgeMaps(nested, inner, inside, refuse);
    judgeScope(inner, queries, refuse);
  }
}

type Way = "nested_signal_ingress" | "nested_signal_egress";

function portOf(component: Component, way: Way): string | undefined {
  return component[way]?.port_name;
}

/** Each port has one ingress or one egress. */
function judgePorts({ id, components, path }: Scope, refuse: Refuse): void {
  for (const way of ["nested_signal_ingress", "nested_signal_egress"] as const) {
    const ports = new Map<string, string>();
    for (const [at, component] of components.entries()) {
      const port = portOf(component, way);
      const first = port === undefined ? undefined : ports.get(port);
      if (port !== undefined && first === undefined) ports.set(port, `${id}.${at}`);
      if (first === undefined) continue;
      const got = `port ${port} again (first: ${first})`;
      refuse([...path, at, way, "port_name"], `one ${way} for each port`, got);
    }
  }
}

/** Each entry of the maps around a circuit has its ingress or egress inside. */
function judgeMaps(
  nested: NonNullable<Component["nested_circuit"]>,
  { components }: Scope,
  path: Path,
  refuse: Refuse,
): void {
  const wanted = { in_ports_map: "nested_signal_ingress", out_ports_map: "nested_signal_egress" };
  for (const map of ["in_ports_map", "out_ports_map"] as const) {
    const way = wanted[map] as Way;
    const inside = new Set(components.map((component) => portOf(component, way)));
    for (const port of nested[map].keys()) {
      if (!inside.has(port)) refuse([...path, map, port], `a ${way} of that name inside`, port);
    }
  }
}

function judgeText(text: string, path: Path, dialect: Dialect, refuse: Refuse): void {
  if (text.trim() === "") {
    refuse(path, "a query in PromQL", `the empty text ${quote(text)}`);
    return;
  }
  for (const fault of judgeQuery(text, dialect)) refuse(path, "a query in PromQL", fault);
}
