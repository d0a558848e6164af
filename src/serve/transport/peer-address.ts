// The address of a connection's other end as services see it.

/** Turns the form `::ffff:a.b.c.d`, in which a dual-stack socket shows IPv4 addresses, into `a.b.c.d`. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}

/** Whether an address belongs to the loopback interface. */
export function isLoopbackAddress(address: string): boolean {
  return address === "::1" || plainAddress(address).startsWith("127.");
}
