// Which values of a document's own dynamic configuration do not have the form that their components want.
// They are set aside when the circuit runs; the author is told when the document is read.

import { type DynamicConfig, overridesOf } from "#circuit/overrides.ts";
import type { Leaf } from "#circuit/plan.ts";

export interface SetAside {
  readonly key: string;
  readonly wanted: string;
}

export function setAside(
  leaves: readonly Leaf[],
  config: DynamicConfig | undefined,
): readonly SetAside[] {
  const found = new Map<string, SetAside>();
  const overrides = overridesOf(config, (key, wanted) => found.set(key, { key, wanted }));
  for (const { kind, config: own } of leaves) {
    if (kind === "variable") overrides.number(own.config_key);
    if (kind === "bool_variable") overrides.boolean(own.config_key);
    if (kind === "gradient_controller") overrides.boolean(own.manual_mode_config_key);
    if (kind === "sampler") overrides.texts(own.pass_through_label_values_config_key);
  }
  return [...found.values()];
}
