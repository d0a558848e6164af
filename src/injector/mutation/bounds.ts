// Warns of ResourceQuotas and LimitRanges that would refuse the injected containers. Kubernetes checks them after injection,
// and its message names neither the cause nor the remedy; these warnings do.

import { type Container, isObject, type JsonObject, text } from "../pod.ts";
import type { ResourceBound } from "../settings.ts";
import { amountOf, OF_AGENT, OF_ENVOY } from "./annotations.ts";
import { ENVOY_NAME } from "./envoy.ts";

const RESOURCES = ["cpu", "memory"] as const;

/** One warning for each limit that a container exceeds. */
export function* boundWarnings(
  containers: readonly Container[],
  bounds: readonly ResourceBound[],
): Generator<string> {
  for (const container of containers)
    for (const resource of RESOURCES) {
      const asked = askedBy(container, resource);
      for (const bound of bounds) {
        const found =
          bound.kind === "LimitRange"
            ? outOfRange(asked, bound)
            : beyondQuota(asked, bound, defaultsFor(bounds, asked));
        if (found !== undefined) yield `${bound.kind} ${bound.name} ${found}`;
      }
    }
}

interface Asked {
  readonly container: string;
  readonly resource: (typeof RESOURCES)[number];
  /** Quantities; empty for none. */
  readonly limit: string;
  readonly request: string;
  /** The annotations that set them. */
  readonly names: { readonly limit: string; readonly request: string };
}

function askedBy(container: Container, resource: Asked["resource"]): Asked {
  const all = container["resources"];
  const quantity = (kind: "limits" | "requests") => {
    const of = isObject(all) ? all[kind] : undefined;
    return isObject(of) ? quantityOf(of, resource) : "";
  };
  const names = container.name === ENVOY_NAME ? OF_ENVOY : OF_AGENT;
  const limit = quantity("limits");
  return {
    container: container.name,
    resource,
    limit,
    // The request defaults to the limit.
    request: quantity("requests") || limit,
    names: { limit: names[`${resource}Limit`], request: names[`${resource}Request`] },
  };
}

function quantityOf(of: JsonObject, resource: string): string {
  const found = of[resource];
  return typeof found === "number" ? `${found}` : text(found);
}

/** True if the namespace has a default limit or request. */
interface Defaulted {
  readonly limit: boolean;
  readonly request: boolean;
}

function defaultsFor(bounds: readonly ResourceBound[], { resource }: Asked): Defaulted {
  const ranges = bounds.filter((bound) => bound.kind === "LimitRange");
  const limit = ranges.some(({ defaults, max }) => resource in defaults || resource in max);
  // The default request defaults to the default limit, then to the minimum.
  const request = ranges.some(
    ({ defaultRequests, min }) => resource in defaultRequests || resource in min,
  );
  return { limit, request: limit || request };
}

function outOfRange(
  { container, resource, limit, request, names }: Asked,
  { max, min }: Extract<ResourceBound, { kind: "LimitRange" }>,
): string | undefined {
  const most = max[resource];
  const least = min[resource];
  if (most !== undefined && isAbove(limit, most))
    return `allows a container ${most} of ${resource}, and ${container} is limited to ${limit}: set the annotation ${names.limit}`;
  if (most !== undefined && isAbove(request, most))
    return `allows a container ${most} of ${resource}, and ${container} requests ${request}: set the annotation ${names.request}`;
  if (least !== undefined && isAbove(least, request))
    return `wants a container to request ${least} of ${resource}, and ${container} requests ${request}: set the annotation ${names.request}`;
  return undefined;
}

function beyondQuota(
  { container, resource, limit, request, names }: Asked,
  { hard }: Extract<ResourceBound, { kind: "ResourceQuota" }>,
  defaulted: Defaulted,
): string | undefined {
  const ofLimit = { quantity: limit, name: names.limit, isDefaulted: defaulted.limit };
  const ofRequest = { quantity: request, name: names.request, isDefaulted: defaulted.request };
  for (const { key, quantity, name, isDefaulted } of [
    { key: `limits.${resource}`, ...ofLimit },
    { key: `requests.${resource}`, ...ofRequest },
    { key: resource, ...ofRequest },
  ]) {
    const most = hard[key];
    if (most === undefined) continue;
    if (quantity === "" && !isDefaulted)
      return `wants ${key} of each container, and ${container} has none: set the annotation ${name}`;
    if (isAbove(quantity, most))
      return `allows ${most} of ${key} to all pods together, and ${container} alone has ${quantity}: set the annotation ${name}`;
  }
  return undefined;
}

/** False if one of them is not a supported quantity. */
function isAbove(quantity: string, other: string): boolean {
  const [one, two] = [amountOf(quantity), amountOf(other)];
  return one !== undefined && two !== undefined && one > two;
}
