// Warnings of needs that nothing meets. A limiter whose key no flow has limits nothing, and a circuit whose query has no
// values decides nothing; all of this is silent, so it becomes a warning once it is known what the policies in force
// define together.

import { nearest } from "#base/text/spelling.ts";
import { isReserved } from "#flow/label.ts";
import type { CompiledPolicy, Need, ScaledObject } from "./compiled.ts";
import type { Target } from "./document/targets.ts";
import type { Warning } from "./document/warning.ts";
import { HEADER } from "./needs/mentions.ts";

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
  /** True if no check names a control point of an agent group; where it is undefined, that is not known. */
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

/** Says what would make the label, as far as its name tells. */
function unknownLabel(name: string, hint: () => string): string {
  const what = `no request attribute, header or classifier makes the label ${name}`;
  const baggageOr = isReserved(name) ? "" : "baggage or ";
  const only = `only ${baggageOr}a caller that sends it, such as an SDK, can set it`;
  if (!HEADER.test(name)) return `${what}${hint()}; ${only}`;
  const spelled = name.toLowerCase().replaceAll("-", "_");
  return `${what}; header labels are lower case, with _ instead of -: ${spelled}; ${only}`;
}
