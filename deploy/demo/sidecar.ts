// The processes of a demo with one Sluice: a service, Sluice with a directory of policies, and Envoy between them and the
// clients.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { envoy } from "../tools/install.ts";
import { DemoProcesses } from "./processes.ts";

const PORTS = {
  Sluice: 8080,
  service: 9000,
  "Envoy's admin": 9901,
  Envoy: 10_000,
} as const;

interface Sidecar {
  /** Directory of policy documents. */
  readonly policies: string;
  /** The script of the service and more arguments. It gets its port as first argument, and prints `on ADDRESS` when it listens. */
  readonly service: readonly string[];
  /** Settings of Sluice on top of those that every demo needs. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Requests may wait in the queues of schedulers. Envoy waits longer for checks, and reports ended requests through its gRPC
   * access log, so that slots are freed soon.
   */
  readonly queues?: boolean;
}

/** Settings of a Sluice that opens only its main port and ends without delay. `tree` is `AGENT` or `CONTROLLER`. */
export function demoSettings(tree: "AGENT" | "CONTROLLER", port: number): Record<string, string> {
  const settings = {
    SERVER_LISTENER_ADDR: `127.0.0.1:${port}`,
    OTEL_PORTS_DEBUG_PORT: "0",
    OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    OTEL_PORTS_PPROF_PORT: "0",
    OTEL_PORTS_ZPAGES_PORT: "0",
    SERVER_DRAIN_ACCEPT_FOR: "0s",
  };
  return Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [`SVC_${tree}_${key}`, value]),
  );
}

/** Ports of one Envoy and what is behind it. */
export interface EnvoyPorts {
  readonly envoy: number;
  readonly admin: number;
  readonly agent: number;
  readonly service: number;
}

/** Writes the bootstrap file that users copy, with other ports, and returns the command that runs Envoy with it. */
export function envoyProgram(
  file: string,
  { envoy: own, admin, agent, service }: EnvoyPorts,
  queues = false,
) {
  const ports = new Map([
    ["10000", own],
    ["9901", admin],
    ["8080", agent],
    ["9000", service],
  ]);
  const read = (name: string) => readFileSync(join(import.meta.dirname, "../envoy", name), "utf8");
  const text = read("sidecar.yaml").replaceAll(
    /port_value: (\d+)/g,
    (_, port: string) => `port_value: ${ports.get(port)}`,
  );
  writeFileSync(file, queues ? withQueues(text, read("access-log-grpc.yaml")) : text);
  const quiet = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"];
  return { command: envoy(), args: ["--config-path", file, ...quiet] };
}

/** A bootstrap with another access log and a longer timeout of checks, as JSON, which Envoy reads as well. */
function withQueues(bootstrap: string, accessLog: string): string {
  const root = parse(bootstrap);
  const { typed_config: manager } = root.static_resources.listeners[0].filter_chains[0].filters[0];
  manager.access_log = parse(accessLog).access_log;
  manager.http_filters[0].typed_config.grpc_service.timeout = "1s";
  return JSON.stringify(root);
}

export class SidecarDemo extends DemoProcesses<keyof typeof PORTS> {
  /** All ports are moved by `shift`. */
  constructor(shift: number) {
    super(PORTS, shift);
  }

  /** Starts the service, Sluice with the policies, and Envoy. Resolves when all of them are ready. */
  async start({ policies, service, env = {}, queues = false }: Sidecar): Promise<void> {
    const ports = {
      envoy: this.port("Envoy"),
      admin: this.port("Envoy's admin"),
      agent: this.port("Sluice"),
      service: this.port("service"),
    };
    const program = envoyProgram(join(this.folder, "envoy.yaml"), ports, queues);
    for (const role of ["Sluice", "service", "Envoy's admin", "Envoy"] as const)
      await this.mustBeFree(role);
    const [script = "", ...flags] = service;
    await this.spawn("service", {
      command: process.execPath,
      args: [script, String(this.port("service")), ...flags],
      started: / on 127/,
    });
    await this.spawn("Sluice", {
      command: process.execPath,
      args: ["src/cli/sluice.js", "standalone", "--policies", policies],
      started: /listening on/,
      env: { ...demoSettings("AGENT", this.port("Sluice")), ...env },
    });
    await this.spawn("Envoy", program);
    await this.answers(`${this.url("Envoy's admin")}/ready`);
  }
}
