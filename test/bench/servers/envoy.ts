// Runs a real Envoy beside the load, with one listener for each agent that it asks, to measure what a check adds to
// a browser's request. It does nothing else: no access log, and no service behind it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { envoy } from "../../../deploy/tools/install.ts";
import type { Target } from "../load/connection.ts";
import { CONTROL_POINT, PASSED } from "../load/requests.ts";
import { killOnExit } from "./processes.ts";

const TIMEOUT_MS = 30_000;

export interface Proxy {
  /** Address of the listener that asks this agent, or of the one that asks no agent. */
  target(agent: Target | undefined): Target;
  stop(): Promise<void>;
}

/** Starts Envoy on the load's core, which it inherits from this process. */
export async function startProxy(
  agents: readonly (Target | undefined)[],
  folder: string,
): Promise<Proxy> {
  const config = join(folder, "envoy.json");
  const adminFile = join(folder, "envoy-admin");
  rmSync(adminFile, { force: true });
  writeFileSync(config, JSON.stringify(bootstrap(agents)));
  const args = ["--config-path", config, "--admin-address-path", adminFile, "--log-level", "error"];
  const child = spawn(envoy(), [...args, "--disable-hot-restart", "--concurrency", "1"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  killOnExit(child);
  const end = performance.now() + TIMEOUT_MS;
  const admin = async (path: string) => {
    const host = existsSync(adminFile) ? readFileSync(adminFile, "utf8") : "";
    return host === "" ? "" : (await fetch(`http://${host}${path}`)).text();
  };
  while (!(await admin("/ready")).startsWith("LIVE")) {
    if (child.exitCode !== null || performance.now() > end) throw new Error("Envoy did not start");
    await wait(20);
  }
  const ports = new Map<string, number>();
  const { listener_statuses: listeners }: Listeners = JSON.parse(
    await admin("/listeners?format=json"),
  );
  for (const { name, local_address } of listeners) {
    ports.set(name, local_address.socket_address.port_value);
  }
  return {
    target: (agent) => `127.0.0.1:${ports.get(`listener-${agents.indexOf(agent)}`)}`,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}

interface Listeners {
  readonly listener_statuses: readonly {
    readonly name: string;
    readonly local_address: { readonly socket_address: { readonly port_value: number } };
  }[];
}

function bootstrap(agents: readonly (Target | undefined)[]): object {
  return {
    admin: { address: address("127.0.0.1:0") },
    static_resources: {
      listeners: agents.map((agent, index) => listener(index, agent)),
      clusters: agents.flatMap((agent, index) =>
        agent === undefined ? [] : cluster(index, agent),
      ),
    },
  };
}

function address(target: Target): object {
  if (target.startsWith("unix:")) return { pipe: { path: target.slice("unix:".length) } };
  const [host, port] = target.split(":");
  return { socket_address: { address: host, port_value: Number(port) } };
}

const EXTENSIONS = "type.googleapis.com/envoy.extensions";
const FILTERS = `${EXTENSIONS}.filters`;

function listener(index: number, agent: Target | undefined): object {
  const manager = {
    "@type": `${FILTERS}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: `ingress-${index}`,
    codec_type: "HTTP2",
    http_filters: [
      ...(agent === undefined ? [] : [extAuthz(index)]),
      {
        name: "envoy.filters.http.router",
        typed_config: { "@type": `${FILTERS}.http.router.v3.Router` },
      },
    ],
    route_config: {
      virtual_hosts: [{ name: "all", domains: ["*"], routes: [directResponse()] }],
    },
  };
  return {
    name: `listener-${index}`,
    address: address("127.0.0.1:0"),
    filter_chains: [
      {
        filters: [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }],
      },
    ],
  };
}

function directResponse(): object {
  return {
    match: { prefix: "/" },
    direct_response: { status: 200, body: { inline_string: PASSED } },
  };
}

function extAuthz(index: number): object {
  return {
    name: "envoy.filters.http.ext_authz",
    typed_config: {
      "@type": `${FILTERS}.http.ext_authz.v3.ExtAuthz`,
      transport_api_version: "V3",
      grpc_service: {
        envoy_grpc: { cluster_name: `agent-${index}` },
        // Longer than any pause of the machine, so that a late answer is measured as late.
        timeout: "5s",
        initial_metadata: [{ key: "control-point", value: CONTROL_POINT }],
      },
      failure_mode_allow: false,
    },
  };
}

function cluster(index: number, agent: Target): object {
  const name = `agent-${index}`;
  return {
    name,
    type: "STATIC",
    connect_timeout: "1s",
    // Requests that queue behind a pause must be measured, not refused.
    circuit_breakers: { thresholds: [{ max_requests: 100_000, max_pending_requests: 100_000 }] },
    typed_extension_protocol_options: {
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": `${EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions`,
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(agent) } }] }],
    },
  };
}
