// Attribute paths, which name the parts of a request that classifiers read.

import { Fault } from "#base/fault.ts";
import { canonicalAddress, networkOf } from "#base/net/ip-address.ts";
import type { Endpoint, HttpAttributes } from "../flow.ts";
import { type AddressRule, WHOLE_IPV4, WHOLE_IPV6 } from "../rules.ts";
import { CUT, type Unreadable } from "./unreadable.ts";

/** Reads one attribute; undefined where the request does not have it. */
export type Read = (http: HttpAttributes) => string | Unreadable | undefined;

/** Names of authentication schemes are case-insensitive, and any number of spaces follows (RFC 9110 §11.4). */
const BEARER = /^bearer +/i;

function bearer(http: HttpAttributes): string | undefined {
  const value = http.header("authorization");
  const scheme = value === undefined ? null : BEARER.exec(value);
  return scheme === null ? undefined : value?.slice(scheme[0].length);
}

function body(http: HttpAttributes): string | Unreadable {
  return http.bodyCut ? CUT : http.body;
}

/** Sockets without an IP address (pipes) have neither address nor port. */
function addressOf(end: Endpoint | undefined): string | undefined {
  return end === undefined || end.address === "" ? undefined : canonicalAddress(end.address);
}

function portOf(end: Endpoint | undefined): string | undefined {
  return end === undefined || end.address === "" ? undefined : String(end.port);
}

const SCALARS: ReadonlyMap<string, Read> = new Map<string, Read>([
  ["request.http.method", (http) => http.method],
  ["request.http.path", (http) => http.path],
  ["request.http.host", (http) => http.host],
  ["request.http.scheme", (http) => http.scheme],
  ["request.http.protocol", (http) => http.protocol],
  ["request.http.body", body],
  ["request.http.size", (http) => (http.size < 0 ? undefined : String(http.size))],
  // Only proxies give requests an id. For other callers the attribute is absent, not empty.
  ["request.http.id", (http) => (http.id === "" ? undefined : http.id)],
  ["request.http.bearer", bearer],
  ["source.address.socketAddress.address", (http) => addressOf(http.source)],
  ["source.address.socketAddress.portValue", (http) => portOf(http.source)],
  ["source.socketAddress.address", (http) => addressOf(http.source)],
  ["source.socketAddress.port", (http) => portOf(http.source)],
  ["destination.address.socketAddress.address", (http) => addressOf(http.destination)],
  ["destination.address.socketAddress.portValue", (http) => portOf(http.destination)],
  ["destination.socketAddress.address", (http) => addressOf(http.destination)],
  ["destination.socketAddress.port", (http) => portOf(http.destination)],
]);

const HEADERS = "request.http.headers.";
const FILTER_METADATA = "metadataContext.filterMetadata.";

/** Every path that `compileAttribute` accepts, with placeholders in angle brackets. */
export const ATTRIBUTES: readonly string[] = [
  ...SCALARS.keys(),
  `${HEADERS}<name>`,
  `${FILTER_METADATA}<namespace>.<key>`,
];

/** Throws a Fault when the path names no part of a request. */
export function compileAttribute(path: string): Read {
  const scalar = SCALARS.get(path);
  if (scalar !== undefined) return scalar;
  if (path.startsWith(HEADERS)) {
    const name = path.slice(HEADERS.length).toLowerCase();
    if (name !== "" && !name.includes(".")) return (http) => http.header(name);
    throw unknown(path, "one header name without dots is wanted");
  }
  if (path.startsWith(FILTER_METADATA)) {
    const names = path.slice(FILTER_METADATA.length);
    if (names.split(".").every((name) => name !== "")) return (http) => http.metadata(names);
    throw unknown(path, "a namespace and keys, joined by dots, are wanted");
  }
  throw unknown(path, `wanted one of ${ATTRIBUTES.join(", ")}`);
}

/**
 * Reads one end of the connection as `<ip>:<port>`, or only its address or network. Throws a Fault for any other path, and
 * for lengths that no prefix has.
 */
export function compileAddress({ from, port, ipv4Prefix, ipv6Prefix }: AddressRule): Read {
  const end = ENDS.get(from);
  if (end === undefined) throw unknown(from, `wanted ${[...ENDS.keys()].join(" or ")}`);
  requirePrefix("ipv4_prefix", ipv4Prefix, WHOLE_IPV4);
  requirePrefix("ipv6_prefix", ipv6Prefix, WHOLE_IPV6);
  const whole = ipv4Prefix === WHOLE_IPV4 && ipv6Prefix === WHOLE_IPV6;
  if (port && whole) return (http) => joined(end(http));
  if (port) throw new Fault("INVALID_ARGUMENT", "a prefix needs port: false");
  if (whole) return (http) => addressOf(end(http));
  return (http) => {
    const address = addressOf(end(http));
    return address === undefined ? undefined : networkOf(address, ipv4Prefix, ipv6Prefix);
  };
}

const ENDS: ReadonlyMap<string, (http: HttpAttributes) => Endpoint | undefined> = new Map([
  ["source.address", (http: HttpAttributes) => http.source],
  ["destination.address", (http: HttpAttributes) => http.destination],
]);

function requirePrefix(name: string, bits: number, max: number): void {
  if (Number.isInteger(bits) && bits >= 1 && bits <= max) return;
  throw new Fault("INVALID_ARGUMENT", `${name} must be from 1 to ${max}, got ${bits}`);
}

function joined(end: Endpoint | undefined): string | undefined {
  const address = addressOf(end);
  if (end === undefined || address === undefined) return undefined;
  return address.includes(":") ? `[${address}]:${end.port}` : `${address}:${end.port}`;
}

function unknown(path: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `unknown attribute "${path}": ${wanted}`);
}
