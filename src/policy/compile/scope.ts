// A circuit as scopes: which component stands where under which id, who writes which signal, and what is
// wrong with the wiring. Signals are known within their own circuit only.

import type { NestedCircuit } from "../language/policy.ts";
import { type Component, component as componentTable } from "../language/policy.ts";
import type { Path } from "../tree.ts";
import { eachPort } from "./ports.ts";

/** Adds a fault at a place of the policy. */
export type Refuse = (path: Path, wanted: string, got: string) => void;

export interface Placed {
  /** `root.3.4`: the position in each circuit on the way, ports included. */
  readonly id: string;
  readonly path: Path;
  /** As in the document: `ema`, `flow_control.rate_limiter`. */
  readonly kind: string;
  readonly component: Component;
  readonly scope: Scope;
  /** The inside of a nested circuit. */
  readonly inner: Scope | undefined;
}

export interface Scope {
  readonly id: string;
  readonly parent: { readonly scope: Scope; readonly nested: NestedCircuit } | undefined;
  readonly components: readonly Placed[];
  /** By signal name. */
  readonly producers: ReadonlyMap<string, { readonly by: Placed; readonly path: Path }>;
  /** Egresses by port name. */
  readonly egresses: ReadonlyMap<string, Placed>;
}

const NESTED: readonly string[] = ["flow_control", "auto_scale", "query"];

/** The present member of a component, one deeper where the member is itself a choice. */
export function kindOf(component: Component): string {
  const present = (value: object): string =>
    Object.entries(value).find(([, member]) => member !== undefined)?.[0] ?? "";
  const kind = present(component);
  if (!NESTED.includes(kind)) return kind;
  const { flow_control, auto_scale, query } = component;
  return `${kind}.${present(flow_control ?? auto_scale ?? query ?? {})}`;
}

export function buildScope(
  id: string,
  components: readonly Component[],
  path: Path,
  refuse: Refuse,
  parent?: Scope["parent"],
): Scope {
  const placed: Placed[] = [];
  const producers = new Map<string, { readonly by: Placed; readonly path: Path }>();
  const egresses = new Map<string, Placed>();
  const scope: Scope = { id, parent, components: placed, producers, egresses };
  for (const [index, component] of components.entries()) {
    const at = [...path, index];
    const own = { id: `${id}.${index}`, path: at, kind: kindOf(component), component, scope };
    const nested = component.nested_circuit;
    const inside = [...at, "nested_circuit", "components"];
    const inner =
      nested && buildScope(own.id, nested.components, inside, refuse, { scope, nested });
    placed.push({ ...own, inner });
  }
  for (const each of placed) noteSignals(each, producers, refuse);
  notePorts(scope, egresses, path, refuse);
  refuseUnknownSignals(scope, refuse);
  return scope;
}

function noteSignals(
  placed: Placed,
  producers: Map<string, { readonly by: Placed; readonly path: Path }>,
  refuse: Refuse,
): void {
  eachPort(componentTable, placed.component, placed.path, {
    in: () => undefined,
    out({ signal_name: name }, path) {
      if (name === undefined) return;
      const first = producers.get(name);
      if (first === undefined) producers.set(name, { by: placed, path });
      else {
        const where = `${placed.scope.id} ${name}`;
        const got = `signal ${where} also written by ${first.by.kind} at ${first.by.id}`;
        refuse(path, "each signal written once in its circuit", got);
      }
    },
  });
}

/** Ingresses and egresses: each port once, and one for every entry of the parent's maps. */
function notePorts(scope: Scope, egresses: Map<string, Placed>, path: Path, refuse: Refuse): void {
  const ingresses = new Map<string, Placed>();
  const note = (into: Map<string, Placed>, port: string, placed: Placed): void => {
    const first = into.get(port);
    if (first === undefined) into.set(port, placed);
    else {
      const at = [...placed.path, placed.kind, "port_name"];
      refuse(at, `one ${placed.kind} for each port`, `port ${port} again (first: ${first.id})`);
    }
  };
  for (const placed of scope.components) {
    const { nested_signal_ingress: ingress, nested_signal_egress: egress } = placed.component;
    if (ingress !== undefined) note(ingresses, ingress.port_name, placed);
    if (egress !== undefined) note(egresses, egress.port_name, placed);
  }
  if (scope.parent === undefined) return;
  const { in_ports_map, out_ports_map } = scope.parent.nested;
  const around = path.slice(0, -1);
  for (const port of in_ports_map.keys()) {
    if (!ingresses.has(port)) {
      refuse(
        [...around, "in_ports_map", port],
        "a nested_signal_ingress of that name inside",
        port,
      );
    }
  }
  for (const port of out_ports_map.keys()) {
    if (!egresses.has(port)) {
      refuse(
        [...around, "out_ports_map", port],
        "a nested_signal_egress of that name inside",
        port,
      );
    }
  }
}

function refuseUnknownSignals(scope: Scope, refuse: Refuse): void {
  for (const placed of scope.components) {
    eachPort(componentTable, placed.component, placed.path, {
      out: () => undefined,
      in({ signal_name: name }, path) {
        if (name === undefined || scope.producers.has(name)) return;
        const got = `${scope.id} ${name}, which nobody writes`;
        refuse(path, `a signal that a component of circuit ${scope.id} writes`, got);
      },
    });
  }
}
