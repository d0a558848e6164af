// The ports of a process: the main port, which carries the services of its parts and the routes that show the process
// itself, and the debug port, which carries `/metrics` for metrics collectors.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import { profiles } from "#host/profiling/routes.ts";
import { info } from "#host/status/info.ts";
import { healthRoute, infoRoutes, statusRoutes } from "#host/status/routes.ts";
import { openPort, type Port } from "#serve/port.ts";
import { metricsRoute } from "#telemetry/metrics/metrics.ts";
import type { ProcessSettings, SluiceProcess } from "./process.ts";

/** The routes and services of a part of the process, such as its agent, on the main port. */
export interface ProcessPart {
  readonly routes: readonly Route[];
  readonly services: readonly GrpcService[];
}

export interface Ports {
  readonly main: Port;
  /** Address of the debug port; undefined where there is none. */
  readonly debugAddress: string | undefined;
}

/** Opens both ports. From now on the process is ready and accepts calls. */
export async function openPorts(
  process: SluiceProcess,
  parts: readonly ProcessPart[],
): Promise<Ports> {
  const { health, scope } = process;
  // The debug port opens first and closes last, so that metrics can be read while the main port drains.
  const debug = await openDebugPort(process);
  if (debug !== undefined) scope.add("debug port", () => debug.cut());
  const main = await openMainPort(process, parts);
  scope.add("port", (speed) => {
    health.enter("stopping");
    return speed === "cut" ? main.cut() : main.drain();
  });
  health.enter("running");
  return { main, debugAddress: debug?.address };
}

/** The routes that show the process itself: health, status, info and metrics. */
export function processRoutes({
  service,
  metrics,
  health,
  clock,
  chance,
}: Pick<SluiceProcess, "service" | "metrics" | "health" | "clock" | "chance">): readonly Route[] {
  return [
    healthRoute(() => health.phase === "running"),
    ...statusRoutes(health.root),
    ...infoRoutes(info(service, clock, chance)),
    metricsRoute(metrics),
  ];
}

async function openMainPort(process: SluiceProcess, parts: readonly ProcessPart[]): Promise<Port> {
  const { service, settings, argv, clock, scope, serverMetrics } = process;
  const log = process.log.child("port");
  const profiling = profiles(settings.profilers, { service, argv, clock });
  scope.add("processor profile", await profiling.start());
  const services = parts.flatMap((part) => part.services);
  const port = await openPort({
    settings: settings.server,
    services,
    routes: [
      ...parts.flatMap((part) => part.routes),
      ...processRoutes(process),
      ...profiling.routes,
    ],
    clock,
    log,
    meter: serverMetrics,
    descriptors: async (names) => {
      const { loadDescriptors } = await import("#wire/protobuf/descriptors.ts");
      return loadDescriptors(names);
    },
  });
  const names = services.map(({ name }) => name.slice(name.lastIndexOf(".") + 1));
  if (settings.server.grpc.enable_reflection) names.push("server reflection");
  warnIfExposed(port, names, "bind server.listener.addr to loopback or turn server.tls on", log);
  log.info({ address: port.address }, `listening on ${port.address}`);
  return port;
}

/**
 * Warns when other machines reach the port without TLS, and names what they reach: the first segments of the paths of
 * revealing routes, and the gRPC services by the last part of their names.
 */
function warnIfExposed(
  { exposed, address }: Port,
  grpc: readonly string[],
  remedy: string,
  log: Log,
): void {
  if (exposed.length === 0) return;
  const routes = [...new Set(exposed.map(({ path }) => firstSegments(path)))];
  const what = "other machines reach this port without TLS, and these routes show or change state";
  log.warn({ address, routes, ...(grpc.length > 0 && { grpc }) }, `${what}; ${remedy}`);
}

/** `/v1/policies` of `/v1/policies/{name}/graph`. */
function firstSegments(path: string): string {
  return path.split("/", 3).join("/");
}

/**
 * Opens `otel.ports.debug_port` with `/metrics` alone; 0 means no debug port. When the port was not configured
 * explicitly and is taken (by a second agent on one machine, say), the process runs without it and logs a warning.
 */
async function openDebugPort(process: SluiceProcess): Promise<Port | undefined> {
  const { settings, metrics, clock, serverMetrics, debugPortRequired } = process;
  const { debug_port: port } = settings.otel.ports;
  const log = process.log.child("debug-port");
  if (port === 0) return undefined;
  try {
    const opened = await openPort({
      settings: {
        ...settings.server,
        listener: { ...settings.server.listener, addr: `${debugHost(settings)}:${port}` },
        grpc: { ...settings.server.grpc, enable_reflection: false },
      },
      services: [],
      routes: [metricsRoute(metrics)],
      clock,
      log,
      meter: serverMetrics,
    });
    const remedy = "bind server.listener.addr to loopback, turn server.tls on, or set it to 0";
    warnIfExposed(opened, [], `otel.ports.debug_port: ${remedy}`, log);
    return opened;
  } catch (thrown) {
    const fault = namingDebugPort(Fault.from(thrown));
    if (debugPortRequired) throw fault;
    log.warn({ port }, `no debug port: ${fault.message}`);
    return undefined;
  }
}

/** `openPort` names `server.listener.addr` as the source of its address; here it is another key. */
function namingDebugPort(fault: Fault): Fault {
  const { code, message, cause } = fault;
  const named = message.replace("server.listener.addr", "otel.ports.debug_port");
  return named === message ? fault : new Fault(code, named, { cause });
}

/** The interface of the main port; loopback where that is a Unix socket, which only this machine reaches. */
function debugHost({ server }: ProcessSettings): string {
  const { addr } = server.listener;
  if (addr.startsWith("unix:")) return "127.0.0.1";
  return addr.slice(0, addr.lastIndexOf(":"));
}
