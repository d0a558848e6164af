// The address of a connection's other end as services see it.

import { canonicalAddress } from "#base/net/ip-address.ts";

/** Whether an address belongs to the loopback interface, however it is spelled. */
export function isLoopbackAddress(address: string): boolean {
  const canonical = canonicalAddress(address);
  return canonical === "::1" || canonical.startsWith("127.");
}
