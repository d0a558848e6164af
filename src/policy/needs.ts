// The names that a policy needs from others, and that others get from it: labels that its limiters are keyed by,
// metrics and flux meters that its queries read, checks at the control points that it selects.

import { queriesOf } from "#circuit/queries.ts";
import { isRequestLabel, isReserved } from "#flow/label.ts";
import { pathOf } from "./compile/port-warnings.ts";
import type { CompiledPolicy, LimiterLabel, Need, Supply } from "./compiled.ts";
import { formatPath, locate, type Path, writtenPath } from "./document/tree.ts";
import type { PolicyDocument } from "./document/wrappers.ts";
import type { Component, Policy } from "./language/policy.ts";
import { HEADER, mentionsOf } from "./needs/mentions.ts";
import { selected } from "./needs/queries.ts";

export function supplyOf({ resources }: Policy): Supply {
  const flow = resources?.flow_control;
  const labels = (flow?.classifiers ?? []).flatMap(({ rules, rego }) => [
    ...rules.keys(),
    ...(rego?.labels.keys() ?? []),
  ]);
  return { labels, fluxMeters: [...(flow?.flux_meters.keys() ?? [])] };
}

export function needsOf(
  document: Policy,
  circuit: CompiledPolicy["circuit"],
  { root, path, tree, targets = [] }: PolicyDocument,
): readonly Need[] {
  const need = (kind: Need["kind"], name: string, inner: Path): Need => {
    const where = [...path, ...writtenPath(tree, inner)];
    return { kind, name, at: locate(root, where), path: formatPath(where) };
  };
  const { labelKeys, matchedLabels, selectors, groups, objects } = mentionsOf(document);
  const expected = new Set(document.resources?.flow_control?.expected_labels);
  const isMade = (name: string) => isRequestLabel(name) || expected.has(name);
  const labels = labelKeys
    .filter(({ name }) => !isMade(name))
    .map(({ name, path: inner }) => ({ ...need("label", name, inner), readBy: limiterAt(inner) }));
  // Callers and baggage may set labels that are not reserved, so these are not unknown.
  const matched = matchedLabels
    .filter(({ name }) => !isMade(name))
    .map(({ name, path: inner }) =>
      need(isReserved(name) ? "label" : "matched_label", name, inner),
    );
  const costs = labelKeys
    .filter(({ name, path: inner }) => HEADER.test(name) && COST_KEYS.has(inner.at(-1)))
    .map(({ name, path: inner }) => need("cost_label", name, inner));
  const controlPoints = [...selectors.values()].map(({ value, path: inner }) => ({
    ...need("control_point", value.control_point, [...inner, "control_point"]),
    agentGroup: value.agent_group,
  }));
  const queries = queriesOf(circuit).flatMap(({ componentId, query }) => {
    const inner = componentAt(document, componentId).path;
    const { metrics, fluxMeters } = selected(query);
    return [
      ...metrics.map((name) => need("metric", name, inner)),
      ...fluxMeters.map((name) => need("flux_meter", name, inner)),
    ];
  });
  const agentGroups = [...groups].map(([name, inner]) => need("agent_group", name, inner));
  const scaled = objects.map(({ value, path: inner, dryRun }) => {
    const { api_version: apiVersion, kind, namespace, name } = value;
    const object = { apiVersion, kind, namespace, name };
    return { ...need("scaled_object", name, inner), object, dryRun };
  });
  const attached = targets.map((target, index) => ({
    ...need("target", target.controlPoint, ["targetRefs", index]),
    target,
  }));
  return [
    ...labels,
    ...matched,
    ...costs,
    ...queries,
    ...agentGroups,
    ...controlPoints,
    ...scaled,
    ...attached,
  ];
}

/** Keys that name the label with a request's cost or priority. */
const COST_KEYS: ReadonlySet<unknown> = new Set(["tokens_label_key", "priority_label_key"]);

/** The component that reads the label whose key is at a path. */
function limiterAt(path: Path): LimiterLabel {
  const steps = path.filter((_, at) => path[at - 1] === "components");
  const use = path.at(-1) === "tokens_label_key" ? "tokens" : "key";
  return { componentId: ["root", ...steps].join("."), use };
}

/** The component of the document with an id, or the composite around it, and its path. */
export function componentAt(
  { circuit }: Policy,
  id: string,
): { readonly component: Component | undefined; readonly path: Path } {
  const steps: string[] = [];
  let components: readonly Component[] = circuit?.components ?? [];
  let component: Component | undefined;
  for (const step of id.split(".").slice(1)) {
    const inner = components[Number(step)];
    if (inner === undefined) break;
    component = inner;
    steps.push(step);
    components = inner.nested_circuit?.components ?? [];
  }
  return { component, path: pathOf(["root", ...steps].join(".")) };
}
