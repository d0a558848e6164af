// Addresses of listeners: parses `listener.addr`, formats bound addresses, and tells local from remote ones.

import { lookup } from "node:dns/promises";
import { type AddressInfo, isIP, isIPv6 } from "node:net";
import { Fault, systemErrorText } from "#base/fault.ts";
import { isLoopback } from "#base/net/ip-address.ts";
import { keyOf, type ListenerSettings } from "../settings.ts";

/** An address to listen on, and the configuration key that it comes from. */
export type Binding =
  | { readonly kind: "unix"; readonly key: string; readonly path: string }
  | {
      readonly kind: "tcp";
      readonly key: string;
      /** undefined: every interface, in both families if the system has both. */
      readonly host: string | undefined;
      readonly port: number;
      readonly ipv6Only: boolean;
    };

const HOST_PORT = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/;
const FAMILY: Readonly<Record<string, 0 | 4 | 6>> = { "": 0, tcp: 0, tcp4: 4, tcp6: 6 };

/** Parses `addr`. Names are resolved here so that `network` can choose among their addresses. */
export async function readAddress(settings: ListenerSettings): Promise<Binding> {
  const { addr, network } = settings;
  const key = keyOf(settings);
  if (addr.startsWith("unix:")) {
    const path = addr.slice("unix:".length);
    if (path === "") throw new Fault("INVALID_ARGUMENT", `${key}: unix: needs a path`);
    return { kind: "unix", key, path };
  }
  const family = FAMILY[network];
  if (family === undefined) {
    throw new Fault("INVALID_ARGUMENT", "server.listener.network must be tcp, tcp4 or tcp6");
  }
  const [, bracketed, bare, digits] = HOST_PORT.exec(addr) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) {
    throw new Fault("INVALID_ARGUMENT", `${key} must be host:port, :port or unix:/path`);
  }
  const host = bracketed ?? bare ?? "";
  if (bracketed !== undefined && !isIPv6(bracketed)) {
    throw new Fault("INVALID_ARGUMENT", `${key}: brackets must contain an IPv6 address`);
  }
  if (host === "") {
    const every = family === 4 ? "0.0.0.0" : family === 6 ? "::" : undefined;
    return { kind: "tcp", key, host: every, port, ipv6Only: family === 6 };
  }
  const resolved = await resolve(key, host, family, network);
  return { kind: "tcp", key, host: resolved, port, ipv6Only: false };
}

async function resolve(
  key: string,
  host: string,
  family: 0 | 4 | 6,
  network: string,
): Promise<string> {
  const literal = isIP(host);
  if (literal !== 0 && family !== 0 && literal !== family) {
    const wanted = `wanted an IPv${family} address, because server.listener.network is ${network}`;
    throw new Fault("INVALID_ARGUMENT", `${key}: ${wanted}, got ${host}`);
  }
  if (literal !== 0) return host;
  try {
    return (await lookup(host, { family })).address;
  } catch (cause) {
    const why = systemErrorText(cause);
    throw new Fault("UNAVAILABLE", `${key}: the host name cannot be resolved: ${why}`);
  }
}

/** The bound address in the form of `addr`. */
export function showAddress(bound: AddressInfo | string | null): string {
  if (bound === null) return "";
  if (typeof bound === "string") return `unix:${bound}`;
  return bound.family === "IPv6"
    ? `[${bound.address}]:${bound.port}`
    : `${bound.address}:${bound.port}`;
}

/** True if only this machine can reach the address. */
export function isLocal(bound: AddressInfo | string | null): boolean {
  return bound === null || typeof bound === "string" || isLoopback(bound.address);
}

/** True if only this machine will be able to reach an address that is not bound yet. */
export function isLocalBinding(binding: Binding): boolean {
  return binding.kind === "unix" || isLoopback(binding.host ?? "");
}
