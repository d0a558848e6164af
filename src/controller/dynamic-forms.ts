// Which values of a dynamic configuration have a form that the policy's components cannot read. Such a
// configuration is set aside whole, like a text that does not parse: half of it is nobody's wish.

import { overridesOf, valueAt } from "#circuit/overrides.ts";
import type { CompiledPolicy, JsonObject } from "#policy/compiled.ts";
import { dynamicKeys } from "#policy/dynamic.ts";

/** Of what is shown of a value, in UTF-16 units. */
const LONGEST = 60;

/** What is wanted and got, by key. A key that is read in several forms is well in any of them. */
export function formFaults(
  document: CompiledPolicy["document"],
  config: JsonObject | undefined,
): ReadonlyMap<string, string> {
  const faults = new Map<string, string>();
  if (config === undefined) return faults;
  let wanted: string[] = [];
  const overrides = overridesOf(config, (_, form) => void wanted.push(form));
  const { number: constant, boolean, texts } = overrides;
  const read = { constant, boolean, texts };
  for (const [key, forms] of dynamicKeys(document)) {
    wanted = [];
    for (const form of forms) read[form](key);
    if (wanted.length < forms.size) continue;
    faults.set(key, `wanted ${wanted.join(", or ")}, got ${shown(valueAt(config, key))}`);
  }
  return faults;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}
