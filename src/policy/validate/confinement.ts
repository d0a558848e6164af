// What a policy of a namespace may reach: flows of services, objects and names of that namespace, and no others, because
// whoever may write policies there need have no say elsewhere. docs/kubernetes.md lists these rules for people.

import type { Refuse } from "../document/finding.ts";
import { isControlPointOf } from "../document/targets.ts";
import { type Path, quote } from "../document/tree.ts";
import { type Policy, policy as policyTable } from "../language/policy.ts";
import { type KubernetesObjectSelector, kubernetesObjectSelector } from "../language/scale.ts";
import { type Selector, selector as selectorTable } from "../language/selector.ts";
import { alerterParameters } from "../language/signals.ts";
import { visitMessages } from "../walk.ts";

/** Milliseconds. Every tick costs the controller, which all namespaces share. */
const LEAST_INTERVAL_MS = 1_000;
/** Components, those inside composites counted, that each tick runs through. */
const MOST_COMPONENTS = 1_000;
/** The labels by which an Alertmanager tells what an alert is and whose. Labels of a policy would take their places. */
const LABELS_OF_ALERTS: readonly string[] = [
  "alert_channels",
  "alertname",
  "component_id",
  "namespace",
  "policy_name",
  "severity",
  "type",
];

/** `path` is the place of the policy in its document. */
export function checkConfinement(
  policy: Policy,
  namespace: string,
  path: Path,
  refuse: Refuse,
): void {
  visitMessages(policyTable, policy, path, ({ message, value, path: inner }) => {
    if (message === selectorTable) checkService(value as Selector, namespace, inner, refuse);
    if (message === kubernetesObjectSelector) {
      const { namespace: scaled } = value as KubernetesObjectSelector;
      if (scaled !== namespace) {
        const wanted = `${namespace}: policies of a namespace scale only what is in it`;
        refuse([...inner, "namespace"], wanted, quote(scaled));
      }
    }
    if (message === alerterParameters) {
      const { labels } = value as { readonly labels: ReadonlyMap<string, string> };
      const wanted = "another label: this one tells what the alert is, and whose";
      for (const label of LABELS_OF_ALERTS)
        if (labels.has(label)) refuse([...inner, "labels", label], wanted, label);
    }
  });
  checkResources(policy, namespace, [...path, "resources"], refuse);
  const interval = policy.circuit?.evaluation_interval ?? 0;
  if (interval !== 0 && interval < LEAST_INTERVAL_MS) {
    const wanted = `0s, or at least ${LEAST_INTERVAL_MS / 1_000}s, in a policy of a namespace`;
    refuse([...path, "circuit", "evaluation_interval"], wanted, `${interval / 1_000}s`);
  }
}

/** The circuit's number of components is known only when it is compiled. */
export function checkSize(components: number, path: Path, refuse: Refuse): void {
  if (components <= MOST_COMPONENTS) return;
  const wanted = `at most ${MOST_COMPONENTS} components, those inside composites counted, in a policy of a namespace`;
  refuse([...path, "circuit", "components"], wanted, String(components));
}

/**
 * Discovery names services `NAME.NAMESPACE.svc.DOMAIN`, and neither of the first two has a dot. The control point of a target
 * is of the namespace, whatever the service.
 */
function checkService(
  { control_point, service }: Selector,
  namespace: string,
  path: Path,
  refuse: Refuse,
): void {
  if (isControlPointOf(control_point, namespace)) return;
  const [name = "", of, svc, ...domain] = service.split(".");
  if (name !== "" && of === namespace && svc === "svc" && domain.join("") !== "") return;
  const got = service === "any" ? "any, which is every service" : quote(service);
  const wanted = `a service of the namespace ${namespace}, such as web.${namespace}.svc.cluster.local`;
  refuse([...path, "service"], wanted, got);
}

function checkResources(
  { resources }: Policy,
  namespace: string,
  path: Path,
  refuse: Refuse,
): void {
  const prefix = `${namespace}/`;
  for (const name of resources?.flow_control?.flux_meters.keys() ?? []) {
    if (name.startsWith(prefix)) continue;
    const wanted = `a name that begins with ${prefix}, because all policies share the names of flux meters`;
    refuse([...path, "flow_control", "flux_meters", name], wanted, quote(name));
  }
  const collected = {
    infra_meters: resources?.infra_meters.size ?? 0,
    telemetry_collectors: resources?.telemetry_collectors.length ?? 0,
  };
  for (const [key, count] of Object.entries(collected)) {
    const wanted = "none: agents collect what they name for every namespace";
    if (count > 0) refuse([...path, key], wanted, String(count));
  }
}
