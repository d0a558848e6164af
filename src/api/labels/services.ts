// Finds the services of a flow by the IP addresses at its two ends.

import { isIPv4, isIPv6 } from "node:net";
import type { Observer } from "#flow/observer.ts";
import { NO_SERVICES, type ServiceLookup } from "../context.ts";

const NONE: readonly string[] = [];

/** Services at an address, however a message spells it; empty when unknown. */
export function findServices(lookup: ServiceLookup, address: string): readonly string[] {
  if (address === "" || lookup === NO_SERVICES) return NONE;
  return lookup.byAddress(canonicalAddress(address));
}

/**
 * Like `findServices`, and counts the lookup in metrics. Lookups of peers and of a proxy's sockets are counted,
 * those of addresses that a caller describes are not.
 */
export function findServicesCounted(
  lookup: ServiceLookup,
  address: string,
  observer: Observer,
): readonly string[] {
  const services = findServices(lookup, address);
  observer.lookedUp(services.length > 0);
  return services;
}

const IPV4_MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The one spelling of an IP address: IPv6 as in RFC 5952 without its zone, IPv4-mapped IPv6 as IPv4. Text that
 * is not an address is returned unchanged.
 */
export function canonicalAddress(text: string): string {
  if (!text.includes(":") || isIPv4(text)) return text;
  const inner = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const zone = inner.indexOf("%");
  const address = zone < 0 ? inner : inner.slice(0, zone);
  if (!isIPv6(address)) return text;
  // The URL class is the only writer of canonical IPv6 in the platform.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = IPV4_MAPPED.exec(canonical);
  if (mapped === null) return canonical;
  const high = Number.parseInt(mapped[1] ?? "", 16);
  const low = Number.parseInt(mapped[2] ?? "", 16);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}
