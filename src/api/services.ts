// Which services a flow belongs to: look-ups by address, and the two labels that tell of them.

import { isIPv4, isIPv6 } from "node:net";
import type { Observer } from "#flow/observe.ts";

/** Knows services by the address of a peer or socket. Addresses are canonical IP texts. */
export interface ServiceLookup {
  /** Empty when unknown. */
  byAddress(address: string): readonly string[];
}

/** Where no discovery runs: nobody is known. */
export const NO_SERVICES: ServiceLookup = { byAddress: () => NOBODY };

const NOBODY: readonly string[] = [];

export const UNKNOWN = "UNKNOWN";

/** Text of the labels `aperture.source_fqdns` and `aperture.destination_fqdns`. */
export function servicesLabel(services: readonly string[]): string {
  return services.length === 0 ? UNKNOWN : services.join(",");
}

const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * One spelling per IP address: IPv6 as in RFC 5952 without its zone, IPv4-mapped IPv6 as IPv4. Text that
 * is no address comes back as it is.
 */
export function canonicalAddress(text: string): string {
  if (!text.includes(":") || isIPv4(text)) return text;
  const inner = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const zone = inner.indexOf("%");
  const address = zone < 0 ? inner : inner.slice(0, zone);
  if (!isIPv6(address)) return text;
  // URLs spell hosts canonically; there is no other canonical writer in the platform.
  const spelt = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = MAPPED.exec(spelt);
  if (mapped === null) return spelt;
  const high = Number.parseInt(mapped[1] ?? "", 16);
  const low = Number.parseInt(mapped[2] ?? "", 16);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

export function find(lookup: ServiceLookup, address: string): readonly string[] {
  if (address === "" || lookup === NO_SERVICES) return NOBODY;
  return lookup.byAddress(canonicalAddress(address));
}

/** A look-up that counts: those by peer and by the proxy's sockets do, described addresses do not. */
export function findCounted(
  lookup: ServiceLookup,
  address: string,
  observer: Observer,
): readonly string[] {
  const services = find(lookup, address);
  observer.lookedUp(services.length > 0);
  return services;
}
