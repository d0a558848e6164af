// The kinds of a document's components by id. A compiled circuit no longer has its composites, but drawings of
// it label boxes with them.

import type { Component, Policy } from "../language/policy.ts";

/** Kinds of the document's own components by id (`root.2`), including those in nested circuits. */
export function containerKinds({ circuit }: Policy): ReadonlyMap<string, string> {
  const kinds = new Map<string, string>();
  const visit = (components: readonly Component[], id: string): void => {
    for (const [at, component] of components.entries()) {
      const own = `${id}.${at}`;
      kinds.set(own, kindOf(component));
      if (component.nested_circuit !== undefined) visit(component.nested_circuit.components, own);
    }
  };
  visit(circuit?.components ?? [], "root");
  return kinds;
}

/** The name of the present member; of its inner member where it is itself a choice (`flow_control`). */
function kindOf(component: Component): string {
  const choice = component.flow_control ?? component.auto_scale ?? component.query ?? component;
  const present = Object.entries(choice).find(([, member]) => member !== undefined);
  return present?.[0] ?? "";
}
