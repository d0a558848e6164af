// The names that a policy needs from others, and that others get from it: labels that its limiters are keyed by,
// metrics and flux meters that its queries read, checks at the control points that it selects. A limiter whose key no flow has
// limits nothing, and a circuit whose query has no values decides nothing; all of this is silent, so it becomes a
// warning once it is known what the policies in force define together.

import { nearest } from "#base/text/spelling.ts";
import { queriesOf } from "#circuit/queries.ts";
import { isRequestLabel, isReserved } from "#flow/label.ts";
import { NAME_LABEL, type Selector as QuerySelector, walk } from "#promql/syntax/ast.ts";
import { compileMatcher } from "#promql/syntax/matchers.ts";
import { parse } from "#promql/syntax/parse.ts";
import { pathOf } from "./compile/port-warnings.ts";
import type { CompiledPolicy, LimiterLabel, Need, ScaledObject, Supply } from "./compiled.ts";
import type { Target } from "./document/targets.ts";
import { formatPath, locate, type Path, writtenPath } from "./document/tree.ts";
import type { Warning } from "./document/warning.ts";
import type { PolicyDocument } from "./document/wrappers.ts";
import type { Message, Type } from "./language/field.ts";
import { type Component, type Policy, policy as policyTable } from "./language/policy.ts";
import { infraMeter as infraMeterTable } from "./language/resources.ts";
import { type KubernetesObjectSelector, kubernetesObjectSelector } from "./language/scale.ts";
import {
  type LabelMatcher,
  labelMatcher,
  MATCHED_LABEL,
  type Selector,
  selector as selectorTable,
} from "./language/selector.ts";

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
  const { labelKeys, matchedLabels, selectors, groups, objects } = mentions(document);
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

/** A warning about a need, without the text that has it. */
export type NeedWarning = Omit<Warning, "source">;
/** A warning about an object that a policy names, without the place of the need. */
export type ObjectWarning = Pick<Warning, "code" | "text" | "why">;

/** The names that exist besides those that the policies of a set define. */
export interface KnownNames {
  /** Tells which metrics exist; undefined where queries go to a Prometheus server, which may have any. */
  readonly knowsMetric?: ((name: string) => boolean) | undefined;
  /** Labels that callers are known to send. */
  readonly labels?: readonly string[];
  /** The agent groups that have agents; where it is undefined, that is not known. */
  readonly agentGroups?: readonly string[] | undefined;
  /** Whether no check names a control point of an agent group; where it is undefined, that is not known. */
  readonly isUnused?: ((agentGroup: string, controlPoint: string) => boolean) | undefined;
  /** Warnings about a Kubernetes object that a policy scales; undefined where nothing is known of objects. */
  readonly scaling?: ((object: ScaledObject) => readonly ObjectWarning[]) | undefined;
  /** Warnings about a target that a policy attaches to; undefined where nothing is known of targets. */
  readonly attaching?: ((target: Target) => readonly ObjectWarning[]) | undefined;
  /** Finds the known word that was meant. It compares all of them, so it is asked for unmet needs only. */
  readonly suggest?: (word: string, known: readonly string[]) => string | undefined;
}

/** Warnings about what no policy of the set and nothing else defines, by policy name; most policies have none. */
export function unmetNeeds(
  policies: readonly Pick<CompiledPolicy, "name" | "needs" | "supply">[],
  known: KnownNames = {},
): ReadonlyMap<string, readonly NeedWarning[]> {
  const warningsOf = needChecker(policies, known);
  const unmet = new Map<string, readonly NeedWarning[]>();
  for (const { name, needs } of policies) {
    const warnings = needs.flatMap(warningsOf);
    if (warnings.length > 0) unmet.set(name, warnings);
  }
  return unmet;
}

/** Returns a function with warnings about a need of these policies that nothing meets. For callers that divide the work. */
export function needChecker(
  policies: readonly Pick<CompiledPolicy, "needs" | "supply">[],
  known: KnownNames = {},
): (need: Need) => readonly NeedWarning[] {
  const warningOf = nameChecker(policies, known);
  const { scaling = () => [], attaching = () => [] } = known;
  const rivals = rivalsOf(policies);
  return (need) => {
    const { object, target, at, path } = need;
    if (target !== undefined) return attaching(target).map((each) => ({ ...each, at, path }));
    if (object !== undefined) {
      return [...rivals(need, object), ...scaling(object)].map((each) => ({ ...each, at, path }));
    }
    const warning = warningOf(need);
    return warning === undefined ? NONE : [warning];
  };
}

/** Returns a function that warns of an object that several components scale: each undoes what the others decide. */
function rivalsOf(
  policies: readonly Pick<CompiledPolicy, "needs">[],
): (need: Need, object: ScaledObject) => readonly ObjectWarning[] {
  const counts = new Map<string, number>();
  for (const { object, dryRun } of policies.flatMap(({ needs }) => needs)) {
    if (object === undefined || dryRun) continue;
    const key = identityOf(object);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return ({ dryRun }, object) => {
    const count = dryRun ? 0 : (counts.get(identityOf(object)) ?? 0);
    if (count < 2) return [];
    const { kind, namespace, name } = object;
    const text = `${count} components scale ${kind} ${namespace}/${name}, and each undoes what the others decide`;
    return [{ code: "other_autoscaler", text }];
  };
}

/** Versions of a group are views of the same objects. */
function identityOf({ apiVersion, kind, namespace, name }: ScaledObject): string {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  return JSON.stringify([group, kind, namespace, name]);
}

/** The warning about an object where no controller scales, or nobody knows whether one does. */
export function needsAutoScale({ kind, namespace, name }: ScaledObject): readonly ObjectWarning[] {
  const text = `the replicas of ${kind} ${namespace}/${name} change only where auto_scale.kubernetes.enabled of the controllers is true`;
  return [{ code: "needs_auto_scale", text }];
}

/** The warning about a target where no controller attaches, or the policy is no resource. */
export function needsAttachment({ kind, namespace, name }: Target): readonly ObjectWarning[] {
  const text = `requests of the ${kind} ${namespace}/${name} are checked only where the policy is a Kubernetes resource and gateway_api.enabled of the controllers is true`;
  return [{ code: "needs_attachment", text }];
}

const NONE: readonly NeedWarning[] = [];

function nameChecker(
  policies: readonly Pick<CompiledPolicy, "supply">[],
  known: KnownNames,
): (need: Need) => NeedWarning | undefined {
  const {
    knowsMetric = () => true,
    labels: sent = [],
    agentGroups,
    isUnused = () => false,
    suggest = nearest,
  } = known;
  const hint = (name: string, defined: ReadonlySet<string>) => {
    // Long lists would make the comparison slow, and a suggestion is only a help.
    const near = defined.size > MAX_COMPARED ? undefined : suggest(name, [...defined]);
    return near === undefined ? "" : `; did you mean ${near}?`;
  };
  const groups = new Set(agentGroups);
  const hasAgents = (group: string) => agentGroups === undefined || groups.has(group);
  const labels = new Set([...sent, ...policies.flatMap(({ supply }) => supply.labels)]);
  const meters = new Set(policies.flatMap(({ supply }) => supply.fluxMeters));
  return ({ kind, name, agentGroup = "", at, path }) => {
    switch (kind) {
      case "label": {
        if (labels.has(name)) return undefined;
        const text = unknownLabel(name, () => hint(name, labels));
        return { code: "unknown_label", at, path, text };
      }
      case "matched_label": {
        if (labels.has(name)) return undefined;
        const text = `no classifier makes the label ${name}${hint(name, labels)}; whoever sends it, in baggage too, chooses whether this selects the request`;
        return { code: "client_label", at, path, text };
      }
      case "cost_label": {
        const text = `${name} is a header, so clients choose what a request costs or how important it is, unless the proxy sets it`;
        return { code: "client_label", at, path, text };
      }
      case "metric": {
        if (knowsMetric(name)) return undefined;
        const text = `a query reads ${name}, which Sluice does not measure, so it has no values`;
        return { code: "unknown_metric", at, path, text };
      }
      case "flux_meter": {
        if (meters.has(name)) return undefined;
        const text = `a query reads the flux meter ${name}, which no policy defines${hint(name, meters)}`;
        return { code: "unknown_flux_meter", at, path, text };
      }
      case "agent_group": {
        if (hasAgents(name)) return undefined;
        const text = `no agent is in the agent group ${name}${hint(name, groups)}`;
        return { code: "unknown_agent_group", at, path, text };
      }
      case "control_point": {
        // A group without agents has a warning of its own, from the start.
        if (!hasAgents(agentGroup) || !isUnused(agentGroup, name)) return undefined;
        const of = agentGroup === "default" ? "" : ` of the agent group ${agentGroup}`;
        const text = `no check has named the control point ${name}${of} for ten minutes`;
        return { code: "unused_control_point", at, path, text };
      }
      case "scaled_object":
      case "target":
        return undefined;
    }
  };
}

/** Names that a suggestion is looked for among; among more, none is made. */
const MAX_COMPARED = 200;

const HEADER = /^http\.request\.header\./;

/** Keys that name the label with a request's cost or priority. */
const COST_KEYS: ReadonlySet<unknown> = new Set(["tokens_label_key", "priority_label_key"]);

/** Says what would make the label, as far as its name tells. */
function unknownLabel(name: string, hint: () => string): string {
  const what = `no request attribute, header or classifier makes the label ${name}`;
  const baggageOr = isReserved(name) ? "" : "baggage or ";
  const only = `only ${baggageOr}a caller that sends it, such as an SDK, can set it`;
  if (!HEADER.test(name)) return `${what}${hint()}; ${only}`;
  const spelled = name.toLowerCase().replaceAll("-", "_");
  return `${what}; header labels are lower case, with _ instead of -: ${spelled}; ${only}`;
}

/** The parts of a document that name something outside it. */
interface Mentions {
  /** The labels that limiters and schedulers are keyed by. */
  readonly labelKeys: readonly { readonly name: string; readonly path: Path }[];
  /** The labels that selectors and workloads ask for. */
  readonly matchedLabels: readonly { readonly name: string; readonly path: Path }[];
  /** The first selector of each agent group and control point. */
  readonly selectors: ReadonlyMap<string, { readonly value: Selector; readonly path: Path }>;
  /** The place where each agent group is named first, or would be if it were not the default. */
  readonly groups: ReadonlyMap<string, Path>;
  /** The selectors of Kubernetes objects. */
  readonly objects: readonly {
    readonly value: KubernetesObjectSelector;
    readonly path: Path;
    readonly dryRun: boolean;
  }[];
}

/** An infra meter has the group of the collector around it, and objects are scaled by controllers. */
const GROUPS_WITHOUT_AGENTS: ReadonlySet<Message> = new Set<Message>([
  infraMeterTable,
  kubernetesObjectSelector,
]);

function mentions(document: Policy): Mentions {
  const labelKeys: { name: string; path: Path }[] = [];
  const matchedLabels: { name: string; path: Path }[] = [];
  const selectors = new Map<string, { value: Selector; path: Path }>();
  const groups = new Map<string, Path>();
  const objects: { value: KubernetesObjectSelector; path: Path; dryRun: boolean }[] = [];
  // `dryRun` says whether the component around the message is or may be switched to a dry run.
  const visit = (message: Message, value: unknown, path: Path, dryRun: boolean): void => {
    const group = (value as { readonly agent_group?: string }).agent_group;
    if (group !== undefined && !GROUPS_WITHOUT_AGENTS.has(message) && !groups.has(group)) {
      groups.set(group, [...path, "agent_group"]);
    }
    if (message === kubernetesObjectSelector) {
      objects.push({ value: value as KubernetesObjectSelector, path, dryRun });
    }
    const inner = dryRun || mayRunDry(message, value);
    if (message === selectorTable) {
      const own = value as Selector;
      const key = JSON.stringify([own.agent_group, own.control_point]);
      if (!selectors.has(key)) selectors.set(key, { value: own, path });
    }
    const members = value as Readonly<Record<string, unknown>>;
    if (message === labelMatcher) {
      for (const name of (value as LabelMatcher).match_labels.keys()) {
        matchedLabels.push({ name, path: [...path, "match_labels", name] });
      }
    }
    const labelIn = MATCHED_LABEL.get(message);
    const matched = labelIn === undefined ? undefined : members[labelIn];
    if (labelIn !== undefined && typeof matched === "string") {
      matchedLabels.push({ name: matched, path: [...path, labelIn] });
    }
    for (const [name, { type, labelKey }] of Object.entries(message.fields)) {
      const own = members[name];
      if (labelKey && typeof own === "string" && own !== "") {
        labelKeys.push({ name: own, path: [...path, name] });
      } else visitType(type, own, [...path, name], inner);
    }
  };
  const visitType = (type: Type, value: unknown, path: Path, dryRun: boolean): void => {
    if (value === undefined) return;
    if (type.kind === "message") visit(type.of(), value, path, dryRun);
    if (type.kind !== "list" && type.kind !== "map") return;
    // Arrays and maps both have entries.
    for (const [key, item] of (value as ReadonlyMap<string, unknown>).entries()) {
      visitType(type.of.type, item, [...path, key], dryRun);
    }
  };
  visit(policyTable, document, [], false);
  return { labelKeys, matchedLabels, selectors, groups, objects };
}

/** True for a component that is, or may be switched to, a dry run. */
function mayRunDry({ fields }: Message, value: unknown): boolean {
  if (!("dry_run" in fields)) return false;
  const own = value as { readonly dry_run: boolean; readonly dry_run_config_key: string };
  return own.dry_run || own.dry_run_config_key !== "";
}

/** Metrics and flux meters that a query selects by their exact names; none if it cannot be parsed. */
function selected(query: string): {
  readonly metrics: readonly string[];
  readonly fluxMeters: readonly string[];
} {
  const metrics = new Set<string>();
  const fluxMeters = new Set<string>();
  for (const { name, matchers } of selectorsOf(query)) {
    const exactly = (label: string) =>
      matchers.find((matcher) => matcher.name === label && matcher.op === "=")?.value;
    metrics.add(name === "" ? (exactly(NAME_LABEL) ?? "") : name);
    fluxMeters.add(exactly("flux_meter_name") ?? "");
  }
  metrics.delete("");
  fluxMeters.delete("");
  return { metrics: [...metrics], fluxMeters: [...fluxMeters] };
}

/** True if a query may select series of this flux meter. */
export function readsFluxMeter(query: string, meter: string): boolean {
  return selectorsOf(query).some(({ name, matchers }) => {
    const fits = (label: string, value: string) =>
      matchers.every((matcher) => matcher.name !== label || compileMatcher(matcher)(value));
    return (
      fits("flux_meter_name", meter) &&
      FLUX_METER_SERIES.some((series) => (name === "" ? fits(NAME_LABEL, series) : name === series))
    );
  });
}

const FLUX_METER_SERIES: readonly string[] = ["sum", "count", "bucket"].map(
  (end) => `flux_meter_${end}`,
);

function selectorsOf(query: string): readonly QuerySelector[] {
  try {
    return [...walk(parse(query))].filter((node) => node.kind === "selector");
  } catch {
    return [];
  }
}

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
