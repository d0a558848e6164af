// The agent's ports: the one that everything reaches, and the small one on which metrics collectors find
// `/metrics` where the documentation says it is.

import { readFile } from "node:fs/promises";
import type { RecordTaker } from "#api/access-log.ts";
import { doorOf } from "#api/door.ts";
import { routes as jsonRoutes, services } from "#api/doors.ts";
import { NO_SERVICES } from "#api/services.ts";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import type { Scope } from "#base/scope.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { Mind } from "#flow/mind.ts";
import type { Health } from "#host/health.ts";
import { info } from "#host/info.ts";
import { profiles } from "#host/profiles.ts";
import { healthRoute, infoRoutes, statusRoutes } from "#host/routes.ts";
import type { Route, Service } from "#serve/handler.ts";
import { openPort, type Port } from "#serve/port.ts";
import type { PortLog, ServerMeter } from "#serve/settings.ts";
import type { Log } from "#telemetry/log.ts";
import { type Metrics, metricsRoute } from "#telemetry/metrics.ts";

const SERVICE = "sluice-agent";

/** Routes and services of another half that shares the port. */
export interface Guests {
  readonly routes: readonly Route[];
  readonly services: readonly Service[];
}

export interface PortsOptions {
  readonly config: AgentConfig;
  readonly debugPortChosen: boolean;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly scope: Scope;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly argv: readonly string[];
  readonly meter: ServerMeter;
  readonly guests?: Guests;
}

/** The JSON doors and everything by which the process shows itself. */
export function agentRoutes(
  options: Pick<PortsOptions, "metrics" | "health" | "clock" | "chance">,
  doors: readonly Route[],
  profiling: readonly Route[],
): readonly Route[] {
  const { metrics, health, clock, chance } = options;
  return [
    ...doors,
    healthRoute(() => health.phase === "running"),
    ...statusRoutes(health.root),
    ...infoRoutes(info(SERVICE, clock, chance)),
    metricsRoute(metrics),
    ...profiling,
  ];
}

/** What the doors of the main port lead to. */
export interface Behind {
  readonly mind: Mind;
  readonly logs: RecordTaker;
}

/** Opens the main port with every door, and names what it shows to strangers. */
export async function openMainPort(options: PortsOptions & Behind): Promise<Port> {
  const { config, scope, clock, chance, argv, mind, logs, meter } = options;
  const log = options.log.child("port");
  const door = doorOf(mind, NO_SERVICES, chance);
  const doors = (await forwardedRoutes(options)) ?? jsonRoutes(door);
  const profiling = profiles(config.profilers, { service: SERVICE, argv, clock });
  scope.add("processor profile", await profiling.start());
  const { guests } = options;
  const grpc = [...services(door, logs), ...(guests?.services ?? [])];
  const port = await openPort({
    settings: config.server,
    services: grpc,
    routes: [...agentRoutes(options, doors, profiling.routes), ...(guests?.routes ?? [])],
    clock,
    log: portLog(log),
    meter,
    descriptors: async (names) => {
      const { loadDescriptors } = await import("#wire/descriptors.ts");
      return loadDescriptors(names);
    },
  });
  const named = [
    ...grpc.map(({ name }) => name.slice(name.lastIndexOf(".") + 1)),
    ...(config.server.grpc.enable_reflection ? ["server reflection"] : []),
  ];
  tellExposure(port, named, "bind server.listener.addr to loopback or turn server.tls on", log);
  log.info({ address: port.address }, `listening on ${port.address}`);
  return port;
}

/**
 * Names what strangers reach: the port's revealing routes, by how their paths begin (who starts Sluice for
 * the first time reads this line first), and the gRPC services, by their last names.
 */
function tellExposure(
  { exposed, address }: Port,
  grpc: readonly string[],
  remedy: string,
  log: Log,
): void {
  if (exposed.length === 0) return;
  const routes = [...new Set(exposed.map(({ path }) => beginning(path)))];
  const what = "other machines reach this port without TLS, and these routes show or change state";
  log.warn({ address, routes, ...(grpc.length > 0 && { grpc }) }, `${what}; ${remedy}`);
}

/** `/v1/policies` of `/v1/policies/{name}/graph`. */
function beginning(path: string): string {
  return path.split("/", 3).join("/");
}

/** The JSON routes of an agent that hands them on to another server; undefined where it judges itself. */
async function forwardedRoutes(options: PortsOptions): Promise<readonly Route[] | undefined> {
  const { config, scope, clock, chance } = options;
  const address = config.server.grpc_gateway.grpc_server_address;
  if (address === "") return undefined;
  const [{ GrpcClient }, { forwardTo, gatewayRoutes }] = await Promise.all([
    import("#wire/grpc-client.ts"),
    import("#api/gateway.ts"),
  ]);
  const client = new GrpcClient({ address, ...(await clientTls(config.server.tls)) });
  scope.add("gateway", () => client.close());
  return gatewayRoutes(forwardTo(client, clock), chance);
}

/** Towards another server the agent shows the certificate that it shows to its callers. */
async function clientTls({
  enabled,
  cert_file,
  key_file,
  client_ca_file,
}: AgentConfig["server"]["tls"]) {
  if (!enabled) return {};
  const [cert, key] = await Promise.all([
    tlsFile("cert_file", cert_file),
    tlsFile("key_file", key_file),
  ]);
  const ca = client_ca_file === "" ? {} : { ca: await tlsFile("client_ca_file", client_ca_file) };
  return { tls: { cert, key, ...ca } };
}

async function tlsFile(key: string, path: string): Promise<Buffer> {
  return readFile(path).catch((thrown: unknown) => {
    const wanted = `server.tls.${key}: wanted a file that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${reasonOf(thrown)}`);
  });
}

/**
 * Opens `otel.ports.debug_port` with `/metrics` alone; 0 means that there is none. A port that nobody chose
 * and that is taken (a second agent on one machine) is done without, and said.
 */
export async function openDebugPort(options: PortsOptions): Promise<Port | undefined> {
  const { config, metrics, clock, meter, debugPortChosen } = options;
  const number = config.otel.ports.debug_port;
  const log = options.log.child("debug-port");
  if (number === 0) return undefined;
  try {
    const port = await openPort({
      settings: {
        ...config.server,
        listener: { ...config.server.listener, addr: `${hostOf(config)}:${number}` },
        grpc: { ...config.server.grpc, enable_reflection: false },
      },
      services: [],
      routes: [metricsRoute(metrics)],
      clock,
      log: portLog(log),
      meter,
    });
    const remedy = "bind server.listener.addr to loopback, turn server.tls on, or set it to 0";
    tellExposure(port, [], `otel.ports.debug_port: ${remedy}`, log);
    return port;
  } catch (thrown) {
    const fault = ofDebugPort(Fault.from(thrown));
    if (debugPortChosen) throw fault;
    log.warn({ port: number }, `no debug port: ${fault.message}`);
    return undefined;
  }
}

/** The port knows one name for its address; this one's comes from another key. */
function ofDebugPort(fault: Fault): Fault {
  const { code, message, cause } = fault;
  const named = message.replace("server.listener.addr", "otel.ports.debug_port");
  return named === message ? fault : new Fault(code, named, { cause });
}

/** The debug port is reached by whom the main port is reached; a Unix socket is reached on this machine only. */
function hostOf(config: AgentConfig): string {
  const { addr } = config.server.listener;
  if (addr.startsWith("unix:")) return "127.0.0.1";
  return addr.slice(0, addr.lastIndexOf(":"));
}

function portLog(log: Log): PortLog {
  return {
    info: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => log.warn(fields, message),
    error: (message, fields = {}) => log.error(fields, message),
  };
}
