// Attribute paths: the names of the parts of a request that classifiers read.

import { Fault } from "#base/fault.ts";
import type { Endpoint, HttpAttributes } from "../flow.ts";

/** Reads one attribute; undefined where the request does not have it. */
export type Read = (http: HttpAttributes) => string | undefined;

const BEARER = "Bearer ";

function bearer(http: HttpAttributes): string | undefined {
  const value = http.header("authorization");
  return value?.startsWith(BEARER) ? value.slice(BEARER.length) : undefined;
}

/** Sockets without an IP address (pipes) have neither address nor port. */
function addressOf(end: Endpoint | undefined): string | undefined {
  return end === undefined || end.address === "" ? undefined : end.address;
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
  ["request.http.body", (http) => http.body],
  ["request.http.size", (http) => (http.size < 0 ? undefined : String(http.size))],
  // Only a proxy gives its requests an id; for other callers the attribute is absent, not empty.
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
const FILTER_METADATA = /^metadataContext\.filterMetadata(?:\.[^.]+)+$/;

/** Throws a Fault when the path names nothing that a request can have. */
export function compileAttribute(path: string): Read {
  const scalar = SCALARS.get(path);
  if (scalar !== undefined) return scalar;
  if (path.startsWith(HEADERS)) {
    const name = path.slice(HEADERS.length);
    if (name !== "" && !name.includes(".")) return (http) => http.header(name);
    throw unknown(path, "one header name without dots is wanted");
  }
  // Accepted because documents use it, but no caller sends it.
  if (FILTER_METADATA.test(path)) return () => undefined;
  throw unknown(path, `wanted ${[...SCALARS.keys()].join(", ")} or ${HEADERS}<name>`);
}

/** Reads one end of the connection as `<ip>:<port>`. Throws a Fault for any other path. */
export function compileAddress(path: string): Read {
  if (path === "source.address") return (http) => joined(http.source);
  if (path === "destination.address") return (http) => joined(http.destination);
  throw unknown(path, "wanted source.address or destination.address");
}

function joined(end: Endpoint | undefined): string | undefined {
  const address = addressOf(end);
  if (end === undefined || address === undefined) return undefined;
  return address.includes(":") && !address.startsWith("[")
    ? `[${address}]:${end.port}`
    : `${address}:${end.port}`;
}

function unknown(path: string, wanted: string): Fault {
  return new Fault("INVALID_ARGUMENT", `unknown attribute "${path}": ${wanted}`);
}
