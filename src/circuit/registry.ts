// The kinds of components: one row for each, in the tables of `components/`.

import type { ComponentContext, ComponentFactories, RunningComponent, Wires } from "./component.ts";
import { ARITHMETIC } from "./components/arithmetic.ts";
import { CONTROL } from "./components/control.ts";
import { HISTORY } from "./components/history.ts";
import { LIMITERS } from "./components/limiters.ts";
import { LOGIC } from "./components/logic.ts";
import { SCALING } from "./components/scaling.ts";
import { SOURCES } from "./components/sources.ts";
import type { Configs, Kind, Leaf } from "./plan.ts";

const FACTORIES: Readonly<ComponentFactories> = {
  ...SOURCES,
  ...ARITHMETIC,
  ...LOGIC,
  ...HISTORY,
  ...CONTROL,
  ...LIMITERS,
  ...SCALING,
};

/** Creates the component of a leaf. */
export function createComponent(
  leaf: Leaf,
  wires: Wires,
  context: ComponentContext,
): RunningComponent {
  return create(leaf.kind, leaf.config, wires, context);
}

function create<K extends Kind>(
  kind: K,
  config: Configs[K],
  wires: Wires,
  context: ComponentContext,
): RunningComponent {
  return FACTORIES[kind](config, wires, context);
}
