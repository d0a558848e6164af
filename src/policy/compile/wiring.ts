// Checks the wiring and the queries of a document and reports findings at the author's own places. A signal is
// known only within its circuit. Of composites only the ports are checked: their insides are correct by
// construction.

import type { Dialect } from "#promql/result.ts";
import { validateQuery } from "#promql/validate.ts";
import type { Refuse } from "../document/finding.ts";
import { type Path, quote } from "../document/tree.ts";
import { type Component, component as table } from "../language/policy.ts";
import { type InPort, inPort, type OutPort, outPort } from "../language/ports.ts";
import { visitMessages } from "../walk.ts";

export interface Wired {
  readonly components: readonly Component[];
  /** Document path of `components`. */
  readonly path: Path;
  readonly queries: Dialect;
}

export function checkWiring({ components, path, queries }: Wired, refuse: Refuse): void {
  checkScope({ id: "root", components, path }, queries, refuse);
}

/** One circuit, without the circuits nested in it. */
interface Scope extends Pick<Wired, "components" | "path"> {
  readonly id: string;
}

function checkScope(scope: Scope, queries: Dialect, refuse: Refuse): void {
  const written = new Map<string, string>();
  const read: { readonly name: string; readonly path: Path }[] = [];
  for (const [at, component] of scope.components.entries()) {
    const id = `${scope.id}.${at}`;
    const note = ({ signal_name: name }: InPort | OutPort, path: Path, reads: boolean): void => {
      if (name === undefined) return;
      if (reads) read.push({ name, path });
      else if (!written.has(name)) written.set(name, id);
      else {
        const got = `a second writer of signal ${name} of circuit ${scope.id} (first: ${written.get(name)})`;
        refuse(path, "one writer for each signal of a circuit", got);
      }
    };
    visitMessages(table, component, [...scope.path, at], ({ message, value, path, outer }) => {
      const isPort = message === inPort || message === outPort;
      if (isPort) note(value as InPort | OutPort, path, message === inPort);
      // The components of a nested circuit have signals of their own.
      return message !== table || outer === undefined;
    });
  }
  for (const { name, path } of read) {
    if (written.has(name)) continue;
    const wanted = `a signal that a component of circuit ${scope.id} writes`;
    refuse(path, wanted, `signal ${name}, which no component writes`);
  }
  checkPorts(scope, refuse);
  for (const [at, { query, nested_circuit: nested }] of scope.components.entries()) {
    const path = [...scope.path, at];
    if (query?.promql !== undefined) {
      const where = [...path, "query", "promql", "query_string"];
      checkQuery(query.promql.query_string, where, queries, refuse);
    }
    if (nested === undefined) continue;
    const inside = [...path, "nested_circuit"];
    const inner: Scope = {
      id: `${scope.id}.${at}`,
      components: nested.components,
      path: [...inside, "components"],
    };
    checkPortMaps(nested, inner, inside, refuse);
    checkScope(inner, queries, refuse);
  }
}

type Boundary = "nested_signal_ingress" | "nested_signal_egress";

function portOf(component: Component, boundary: Boundary): string | undefined {
  return component[boundary]?.port_name;
}

/** Checks that no port has two ingress or two egress components. */
function checkPorts({ id, components, path }: Scope, refuse: Refuse): void {
  for (const boundary of ["nested_signal_ingress", "nested_signal_egress"] as const) {
    const ports = new Map<string, string>();
    for (const [at, component] of components.entries()) {
      const port = portOf(component, boundary);
      const first = port === undefined ? undefined : ports.get(port);
      if (port !== undefined && first === undefined) ports.set(port, `${id}.${at}`);
      if (first === undefined) continue;
      const got = `a second one for port ${port} (first: ${first})`;
      refuse([...path, at, boundary, "port_name"], `one ${boundary} for each port`, got);
    }
  }
}

/** Checks that each port in the maps of a nested circuit has its ingress or egress inside. */
function checkPortMaps(
  nested: NonNullable<Component["nested_circuit"]>,
  { components }: Scope,
  path: Path,
  refuse: Refuse,
): void {
  const wanted = { in_ports_map: "nested_signal_ingress", out_ports_map: "nested_signal_egress" };
  for (const map of ["in_ports_map", "out_ports_map"] as const) {
    const boundary = wanted[map] as Boundary;
    const inside = new Set(components.map((component) => portOf(component, boundary)));
    for (const port of nested[map].keys()) {
      if (!inside.has(port))
        refuse([...path, map, port], `a ${boundary} of that name inside`, port);
    }
  }
}

function checkQuery(text: string, path: Path, dialect: Dialect, refuse: Refuse): void {
  if (text.trim() === "") {
    refuse(path, "a query in PromQL", `empty text ${quote(text)}`);
    return;
  }
  for (const fault of validateQuery(text, dialect)) refuse(path, "a query in PromQL", fault);
}
