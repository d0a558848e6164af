// The lookup of services by address, which service discovery implements.

/** Service names by the address of a peer or socket: what service discovery knows. */
export interface ServiceLookup {
  /** Fully qualified names; empty when the address is unknown. `address` is in canonical form. */
  byAddress(address: string): readonly string[];
}

/** The lookup of an agent without service discovery: knows no address. */
export const NO_SERVICES: ServiceLookup = { byAddress: () => [] };
