// Listener addresses as text: what may be written, what is bound, and how the bound one is shown.

import { lookup } from "node:dns/promises";
import { type AddressInfo, isIP, isIPv6 } from "node:net";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import type { ListenerSettings } from "../settings.ts";

export type Binding =
  | { readonly kind: "unix"; readonly path: string }
  | {
      readonly kind: "tcp";
      /** undefined: every interface, both families where the system has both. */
      readonly host: string | undefined;
      readonly port: number;
      readonly ipv6Only: boolean;
    };

const HOST_PORT = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/;
const FAMILY: Readonly<Record<string, 0 | 4 | 6>> = { tcp: 0, tcp4: 4, tcp6: 6 };

/** Reads `addr`; names are resolved here so that `network` can choose among their addresses. */
export async function readAddress(settings: ListenerSettings): Promise<Binding> {
  const { addr, network } = settings;
  if (addr.startsWith("unix:")) {
    const path = addr.slice("unix:".length);
    if (path === "")
      throw new Fault("INVALID_ARGUMENT", "server.listener.addr: unix: needs a path");
    return { kind: "unix", path };
  }
  const family = FAMILY[network];
  if (family === undefined) {
    throw new Fault("INVALID_ARGUMENT", "server.listener.network must be tcp, tcp4 or tcp6");
  }
  const [, bracketed, bare, digits] = HOST_PORT.exec(addr) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) {
    throw new Fault(
      "INVALID_ARGUMENT",
      "server.listener.addr must be host:port, :port or unix:/path",
    );
  }
  const host = bracketed ?? bare ?? "";
  if (bracketed !== undefined && !isIPv6(bracketed)) {
    throw new Fault("INVALID_ARGUMENT", "server.listener.addr: brackets hold an IPv6 address");
  }
  if (host === "") {
    const every = family === 4 ? "0.0.0.0" : family === 6 ? "::" : undefined;
    return { kind: "tcp", host: every, port, ipv6Only: family === 6 };
  }
  return { kind: "tcp", host: await resolve(host, family), port, ipv6Only: false };
}

async function resolve(host: string, family: 0 | 4 | 6): Promise<string> {
  const literal = isIP(host);
  if (literal !== 0 && family !== 0 && literal !== family) {
    throw new Fault("INVALID_ARGUMENT", `listener.addr is not an IPv${family} address`);
  }
  if (literal !== 0) return host;
  try {
    return (await lookup(host, { family })).address;
  } catch (cause) {
    const why = reasonOf(cause);
    throw new Fault("UNAVAILABLE", `server.listener.addr: the host name does not resolve: ${why}`);
  }
}

/** The bound address in the form that `addr` takes. */
export function showAddress(bound: AddressInfo | string | null): string {
  if (bound === null) return "";
  if (typeof bound === "string") return `unix:${bound}`;
  return bound.family === "IPv6"
    ? `[${bound.address}]:${bound.port}`
    : `${bound.address}:${bound.port}`;
}

/** Can only this machine reach the address? */
export function isLocal(bound: AddressInfo | string | null): boolean {
  return bound === null || typeof bound === "string" || isLoopback(bound.address);
}

/** The same, before it is bound. */
export function isLocalBinding(binding: Binding): boolean {
  return binding.kind === "unix" || isLoopback(binding.host);
}

/** Addresses of a connection as its socket shows them: undefined on a Unix socket, and once it is gone. */
export interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly localAddress?: string | undefined;
}

/**
 * Does a connection that came in over a listener of this kind stay on this machine? Both ends must say so: proxies
 * of a mesh pass strangers on from an address in 127.0.0.0/8, but to the address of the pod.
 */
export function isLocalPeer(kind: Binding["kind"], { remoteAddress, localAddress }: Ends): boolean {
  return kind === "unix" || (isLoopback(remoteAddress) && isLoopback(localAddress));
}

function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false;
  return address === "::1" || plainAddress(address).startsWith("127.");
}

/** An IPv4 address that a dual-stack socket shows as `::ffff:a.b.c.d`, as itself. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}
