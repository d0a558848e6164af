// The configuration that agents get of a component of the circuit.

import type { AgentConfig, ConfigKind } from "../../compiled.ts";
import type { Message } from "../../language/field.ts";
import { compactMessage } from "../../message.ts";

/** `id` is the id under which agents know the component; `message` is the language's table of it. */
export function agentConfig<V>(
  kind: ConfigKind,
  id: string,
  agentGroups: readonly string[],
  message: Message<V>,
  component: V,
): AgentConfig {
  return { kind, name: id, agentGroups, message: compactMessage(message, component) };
}
