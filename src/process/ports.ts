// The ports of a process: the main port, which carries the services of its parts and the routes that show the process
// itself; where it is configured, a port of its own for administration; and the debug port, which carries `/metrics` for
// metrics collectors.

import { Fault } from "#base/fault.ts";
import { type GrpcService, isAdministration, type Route } from "#base/handler.ts";
import { compactHeap } from "#host/life/compact-heap.ts";
import { profiles } from "#host/profiling/routes.ts";
import type { Health } from "#host/status/health.ts";
import { info } from "#host/status/info.ts";
import { healthRoute, infoRoutes, statusRoutes } from "#host/status/routes.ts";
import { NO_GUARD, openAdministration } from "#serve/administration.ts";
import { openPort, type Port } from "#serve/port.ts";
import { keyOf, type PortSettings } from "#serve/settings.ts";
import { metricsRoute } from "#telemetry/metrics/metrics.ts";
import { checkPort } from "./port-check.ts";
import type { ProcessSettings, SluiceProcess } from "./process.ts";
import { logReach } from "./reach.ts";

/** The routes and services of a part of the process, such as its agent. */
export interface ProcessPart {
  readonly routes: readonly Route[];
  readonly services: readonly GrpcService[];
}

export interface Ports {
  readonly main: Port;
  /** Undefined where the main port serves administration, or none does. */
  readonly administration: Port | undefined;
  /** Address of the debug port; undefined where there is none. */
  readonly debugAddress: string | undefined;
}

/** Opens all ports. From now on the process is ready and accepts calls. */
export async function openPorts(
  process: SluiceProcess,
  parts: readonly ProcessPart[],
): Promise<Ports> {
  const { health, scope } = process;
  compactHeap();
  // The debug port and administration open first and close last, so that they can be asked while the main port drains.
  const debug = await openDebugPort(process);
  if (debug !== undefined) {
    scope.add("debug port", () => debug.cut());
    joinHealth(health, "debug-port", debug);
  }
  const whole = await served(process, parts);
  const administration = await openAdministrationPort(process, whole);
  if (administration !== undefined) {
    scope.add("administration", () => administration.cut());
    joinHealth(health, "administration", administration);
  }
  const main = await openMainPort(process, whole);
  scope.add("port", (speed) => {
    health.enter("stopping");
    return speed === "cut" ? main.cut() : main.drain();
  });
  joinHealth(health, "port", main);
  health.enter("running");
  return { main, administration, debugAddress: debug?.address };
}

/** The port is part of what readiness checks, and gRPC health on it says what the process's health says. */
function joinHealth(health: Health, name: string, port: Port): void {
  health.readiness.check(name, (signal) => checkPort(port.address, signal));
  port.health.setAll(health.healthy);
  health.onChange(port.health.setAll);
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

/** Everything that the process serves. */
async function served(process: SluiceProcess, parts: readonly ProcessPart[]): Promise<ProcessPart> {
  const { service, settings, argv, clock, scope } = process;
  const profiling = profiles(settings.profilers, { service, argv, clock });
  scope.add("processor profile", await profiling.start());
  return {
    routes: [
      ...parts.flatMap((part) => part.routes),
      ...processRoutes(process),
      ...profiling.routes,
    ],
    services: parts.flatMap((part) => part.services),
  };
}

function filtered({ routes, services }: ProcessPart, keep: typeof isAdministration): ProcessPart {
  return { routes: routes.filter(keep), services: services.filter(keep) };
}

async function openMainPort(process: SluiceProcess, whole: ProcessPart): Promise<Port> {
  const { server } = process.settings;
  const { enabled, addr } = server.administration;
  if (enabled && addr === "") return openGuarded(process, server, whole);
  const settings = { ...server, grpc: { ...server.grpc, enable_reflection: false } };
  const open = filtered(whole, (served) => !isAdministration(served));
  return openGuarded(process, settings, open);
}

/** Opens `server.administration.addr`, if there is one. */
async function openAdministrationPort(
  process: SluiceProcess,
  whole: ProcessPart,
): Promise<Port | undefined> {
  const { server } = process.settings;
  const { enabled, addr } = server.administration;
  if (!enabled || addr === "") return undefined;
  const settings = {
    ...server,
    listener: { ...server.listener, addr, key: "server.administration.addr" },
    tls: { ...server.tls, enabled: server.tls.enabled && !addr.startsWith("unix:") },
  };
  return openGuarded(process, settings, filtered(whole, isAdministration));
}

/** Opens a port that guards its administration, and says what other machines can use of it. */
async function openGuarded(
  process: SluiceProcess,
  settings: PortSettings & Pick<ProcessSettings["server"], "administration">,
  { routes, services }: ProcessPart,
): Promise<Port> {
  const { clock, scope, serverMetrics } = process;
  const { listener, tls, administration } = settings;
  const key = keyOf(listener);
  const main = key === keyOf({});
  const log = process.log.child(main ? "port" : "administration");
  const guard = await openAdministration({ settings: administration, listener, tls, clock, log });
  scope.add("token", guard.close);
  const port = await openPort({
    settings,
    services,
    routes,
    guard,
    clock,
    log,
    meter: serverMetrics,
    descriptors: async (served) => {
      const { loadDescriptors } = await import("#wire/protobuf/descriptors.ts");
      return loadDescriptors(served);
    },
  });
  const { address } = port;
  const { requirement } = guard;
  if (port.remote && requirement === "local") {
    await port.cut();
    const why =
      "the host name was a loopback address when access was decided and is another one now";
    throw new Fault("UNAVAILABLE", `${key}: ${why}`);
  }
  if (port.remote) {
    logReach({ key, address, tls: tls.enabled, requirement, routes, services }, log);
  }
  log.info({ address }, main ? `listening on ${address}` : `administration listens on ${address}`);
  return port;
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
    const routes = [metricsRoute(metrics)];
    const opened = await openPort({
      settings: {
        ...settings.server,
        listener: {
          ...settings.server.listener,
          addr: `${debugHost(settings)}:${port}`,
          key: "otel.ports.debug_port",
        },
        grpc: { ...settings.server.grpc, enable_reflection: false },
      },
      services: [],
      routes,
      guard: NO_GUARD,
      clock,
      log,
      meter: serverMetrics,
    });
    if (opened.remote) {
      const served = { routes, services: [], requirement: "refused" } as const;
      const { address } = opened;
      const tls = settings.server.tls.enabled;
      logReach({ key: "server.listener.addr", address, tls, ...served }, log);
    }
    return opened;
  } catch (thrown) {
    if (debugPortRequired) throw thrown;
    log.warn({ port }, `no debug port: ${Fault.from(thrown).message}`);
    return undefined;
  }
}

/** The interface of the main port; loopback where that is a Unix socket, which only this machine reaches. */
function debugHost({ server }: ProcessSettings): string {
  const { addr } = server.listener;
  if (addr.startsWith("unix:")) return "127.0.0.1";
  return addr.slice(0, addr.lastIndexOf(":"));
}
