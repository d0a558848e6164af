// The addresses in EndpointSlices and Services. Every field may be absent: an address without a target has no name, and that
// is not a fault.

import type { Entity } from "#base/net/entity.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { fieldOf, type KubeObject, listOf, type Resource, textOf } from "../api/objects.ts";

export const ENDPOINT_SLICES: Resource = {
  group: "discovery.k8s.io",
  version: "v1",
  plural: "endpointslices",
};
export const SERVICES: Resource = { group: "", version: "v1", plural: "services" };

/** Label of an EndpointSlice: the Service whose endpoints it has. */
const SERVICE_NAME = "kubernetes.io/service-name";
/** Stands in place of an address in headless Services. */
const HEADLESS = "None";

/**
 * The pods of an EndpointSlice that receive requests: ready ones, and terminating ones that still serve. Undefined for none.
 */
export function podsOf(object: KubeObject, domain: string): readonly Entity[] | undefined {
  const { namespace = "", labels } = object.metadata;
  const service = textOf(labels, SERVICE_NAME);
  if (service === "" || textOf(object, "addressType") === "FQDN") return undefined;
  const services = [nameOf(service, namespace, domain)];
  const found = new Map<string, Entity>();
  for (const endpoint of listOf(object, "endpoints")) {
    const target = fieldOf(endpoint, "targetRef");
    const name = textOf(target, "name");
    if (textOf(target, "kind") !== "Pod" || name === "" || !serves(endpoint)) continue;
    const nodeName = textOf(endpoint, "nodeName");
    for (const address of textsOf(endpoint, "addresses")) {
      const ipAddress = canonicalAddress(address);
      const entity = { uid: textOf(target, "uid"), ipAddress, name, namespace, nodeName, services };
      found.set(`${ipAddress} ${name}`, entity);
    }
  }
  return found.size === 0 ? undefined : [...found.values()];
}

/** The addresses of a Service of type ClusterIP; undefined for none. */
export function clusterAddressesOf(
  object: KubeObject,
  domain: string,
): readonly Entity[] | undefined {
  const spec = fieldOf(object, "spec");
  if ((textOf(spec, "type") || "ClusterIP") !== "ClusterIP") return undefined;
  const { name, namespace = "" } = object.metadata;
  const services = [nameOf(name, namespace, domain)];
  const addresses = new Set([...textsOf(spec, "clusterIPs"), textOf(spec, "clusterIP")]);
  const found: Entity[] = [];
  for (const address of addresses) {
    if (address === "" || address === HEADLESS) continue;
    const ipAddress = canonicalAddress(address);
    const called = `ClusterIP-${namespace}-${name}-${ipAddress}`;
    found.push({ uid: ipAddress, ipAddress, name: called, namespace, nodeName: "", services });
  }
  return found.length === 0 ? undefined : found;
}

/**
 * The domain of the cluster, from the search list of a pod's resolver (`svc.DOMAIN`); undefined if it is not there.
 */
export function clusterDomainOf(resolvConf: string): string | undefined {
  for (const line of resolvConf.split("\n")) {
    const [keyword, ...domains] = line.trim().split(/\s+/);
    if (keyword !== "search") continue;
    const found = domains.find((domain) => domain.startsWith("svc."));
    if (found !== undefined) return found.slice("svc.".length).replace(/\.$/, "");
  }
  return undefined;
}

function nameOf(service: string, namespace: string, domain: string): string {
  return `${service}.${namespace}.svc.${domain}`;
}

/** True if an endpoint takes traffic. A missing condition counts as ready. */
function serves(endpoint: unknown): boolean {
  const conditions = fieldOf(endpoint, "conditions");
  return fieldOf(conditions, "ready") !== false || fieldOf(conditions, "serving") === true;
}

function textsOf(value: unknown, name: string): readonly string[] {
  return listOf(value, name).filter((each) => typeof each === "string");
}
