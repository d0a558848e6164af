// Refuses requests of administration that may come from a web page. A browser on a machine that reaches this port sends
// requests of any page to it, even to loopback addresses and private networks.

import { isIP, isIPv6 } from "node:net";
import { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";

type Headers = Pick<Call, "header">;

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const LOOPBACK_NAME = /^(?:[a-z0-9_-]+\.)*localhost$/;

/**
 * Throws PERMISSION_DENIED if the request comes from a page of another origin, even of another port of this machine.
 * `scheme` is that of the listener.
 */
export function refuseCrossOrigin(call: Headers, scheme: "http" | "https"): void {
  const site = call.header("sec-fetch-site");
  const origin = call.header("origin");
  const own =
    (site === undefined || site === "same-origin" || site === "none") &&
    (origin === undefined || isOrigin(origin, scheme, call.header("host")));
  if (!own) {
    throw new Fault(
      "PERMISSION_DENIED",
      "administration does not accept requests from pages of other origins",
    );
  }
}

/** True if scheme, host and port agree. The default port may be left out. */
function isOrigin(origin: string, scheme: string, host = ""): boolean {
  const own = `${scheme}://${host}`;
  if (!URL.canParse(origin) || !URL.canParse(own)) return false;
  return new URL(origin).origin === new URL(own).origin;
}

/**
 * Throws PERMISSION_DENIED unless the host is an IP address, a loopback name or an allowed host. A page that uses DNS
 * rebinding sends its own name, and never an address.
 */
export function requireKnownHost(host: string, allowed: ReadonlySet<string>): void {
  const name = hostName(host);
  if (isIP(name) !== 0 || LOOPBACK_NAME.test(name) || allowed.has(name)) return;
  const remedy = "add it to server.administration.allowed_hosts";
  const why = `administration is not served under this host name; ${remedy}`;
  throw new Fault("PERMISSION_DENIED", why);
}

/** Lower case, without the port, the brackets of an IPv6 address and a dot at the end. */
export function hostName(host: string): string {
  const [, bracketed, bare = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? [];
  if (bracketed !== undefined && isIPv6(bracketed)) return bracketed.toLowerCase();
  // Text that is not a host and a port matches no known name.
  return (bare || host).toLowerCase().replace(/\.$/, "");
}

/**
 * Throws 415 for any other type. A page cannot send JSON to another origin without a preflight, which is never granted.
 */
export function requireJsonType(call: Headers): void {
  if (JSON_TYPE.test(call.header("content-type") ?? "")) return;
  throw new Fault("INVALID_ARGUMENT", "content-type must be application/json", { http: 415 });
}
