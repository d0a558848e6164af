// Finds the services of a flow by the IP addresses at its two ends.

import { canonicalAddress } from "#base/net/ip-address.ts";
import type { Observer } from "#flow/observer.ts";
import { NO_SERVICES, type ServiceLookup } from "../service-lookup.ts";

const NONE: readonly string[] = [];
/** Peers on a Unix socket have no address; they are on the same machine, as those at this address are. */
const LOOPBACK = "127.0.0.1";

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

/** Services of the caller, counted. */
export function findPeerServices(
  lookup: ServiceLookup,
  peer: string,
  observer: Observer,
): readonly string[] {
  return findServicesCounted(lookup, peer === "" ? LOOPBACK : peer, observer);
}
