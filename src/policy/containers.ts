// What the boxes of a circuit are: the kinds of a document's components by the id under which they stand.

import type { Component, Policy } from "./language/policy.ts";

/** Ids (`root.2`) of a document's own components, those in nested circuits included, with their kinds. */
export function containerKinds({ circuit }: Policy): ReadonlyMap<string, string> {
  const kinds = new Map<string, string>();
  const note = (components: readonly Component[], id: string): void => {
    for (const [at, component] of components.entries()) {
      const own = `${id}.${at}`;
      kinds.set(own, kindOf(component));
      if (component.nested_circuit !== undefined) note(component.nested_circuit.components, own);
    }
  };
  note(circuit?.components ?? [], "root");
  return kinds;
}

/** The present member; one deeper where the member is itself a choice. */
function kindOf(component: Component): string {
  const choice = component.flow_control ?? component.auto_scale ?? component.query ?? component;
  const present = Object.entries(choice).find(([, member]) => member !== undefined);
  return present?.[0] ?? "";
}
