// One example for each component of docs/policy-components.md, taken from policies that tests run: the recipes of the
// cookbook, which a real Envoy runs, the shipped policies, and the cases of compiler and circuit.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";

const ROOT = join(import.meta.dirname, "../..");
const FOLDERS = [
  "docs/cookbook",
  "deploy/policies",
  "deploy/scenarios/policies",
  "test/cases/policy",
  "test/golden/control-plane/cases",
];
/** Cases about ports and defaults that nobody would write like that. */
const ODD = /invalid-|unconnected|document-defaults|special/;
const GROUPS = new Set(["flow_control", "auto_scale", "query"]);

/** YAML by the path of the component, such as `flow_control.rate_limiter`. */
export function componentExamples(): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const keep = (path: string, example: object) => {
    if (!found.has(path)) found.set(path, stringify(example, { lineWidth: 100 }));
  };
  for (const { circuit, resources } of policies()) {
    for (const component of circuit?.components ?? []) collect(component, keep);
    for (const [name, value] of Object.entries(resources ?? {})) {
      if (name !== "flow_control") keep(`resources.${name}`, { [name]: value });
    }
    for (const [name, value] of Object.entries(resources?.flow_control ?? {})) {
      keep(`resources.flow_control.${name}`, { flow_control: { [name]: value } });
    }
  }
  return found;
}

function collect(component: object, keep: (path: string, example: object) => void): void {
  for (const [name, value] of Object.entries(component)) {
    if (!GROUPS.has(name)) keep(name, component);
    else for (const kind of Object.keys(value)) keep(`${name}.${kind}`, component);
    if (name === "nested_circuit") for (const inner of value.components) collect(inner, keep);
  }
}

function policies() {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter(
        (file) => /\.(yaml|md)$/.test(file) && !/README\.md$|dynamic/.test(file) && !ODD.test(file),
      )
      .sort()
      .map((file) => readFileSync(join(ROOT, folder, file), "utf8"))
      .map((text) => parse(/^```yaml\n(.*?)^```$/ms.exec(text)?.[1] ?? text))
      .map((document) => document?.spec ?? document?.policy ?? document ?? {}),
  );
}
