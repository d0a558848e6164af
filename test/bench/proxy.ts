// Real Envoy beside the load, with one listener for each agent that it asks: what a check costs a browser's
// request. Nothing but the question is left in it: no access log, no service behind.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { envoy } from "../tools/install.ts";
import type { Target } from "./lane.ts";
import { CONTROL_POINT, PASSED } from "./requests.ts";
import { leash } from "./servers.ts";

const PATIENCE_MS = 30_000;

export interface Proxy {
  /** Where the proxy listens that asks this agent; without one, it asks nobody. */
  target(agent: Target | undefined): Target;
  stop(): Promise<void>;
}

/** It runs on the load's core, which it inherits. */
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
  leash(child);
  const end = performance.now() + PATIENCE_MS;
  const ask = async (path: string) => {
    const admin = existsSync(adminFile) ? readFileSync(adminFile, "utf8") : "";
    return admin === "" ? "" : (await fetch(`http://${admin}${path}`)).text();
  };
  while (!(await ask("/ready")).startsWith("LIVE")) {
    if (child.exitCode !== null || performance.now() > end) throw new Error("Envoy did not start");
    await wait(20);
  }
  const ports = new Map<string, number>();
  const { listener_statuses: listeners }: Listeners = JSON.parse(
    await ask("/listeners?format=json"),
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
      ...(agent === undefined ? [] : [asking(index)]),
      {
        name: "envoy.filters.http.router",
        typed_config: { "@type": `${FILTERS}.http.router.v3.Router` },
      },
    ],
    route_config: {
      virtual_hosts: [{ name: "all", domains: ["*"], routes: [answeredHere()] }],
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

function answeredHere(): object {
  return {
    match: { prefix: "/" },
    direct_response: { status: 200, body: { inline_string: PASSED } },
  };
}

function asking(index: number): object {
  return {
    name: "envoy.filters.http.ext_authz",
    typed_config: {
      "@type": `${FILTERS}.http.ext_authz.v3.ExtAuthz`,
      transport_api_version: "V3",
      grpc_service: {
        envoy_grpc: { cluster_name: `agent-${index}` },
        // Longer than any pause of the machine: what is late shall be seen as late.
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
    // A queue behind a pause is to be measured, not refused.
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
