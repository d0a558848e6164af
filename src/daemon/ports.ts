// The ports of a process: the main port, which carries the services of its parts and the routes that show the process
// itself; where it is configured, a port of its own for administration; and the ports of telemetry.

import { isAdministration, type Route } from "#base/handler.ts";
import { compactHeap, useOptimizingCompilers } from "#runtime/life/v8.ts";
import { profiles } from "#runtime/profiling/routes.ts";
import { info } from "#runtime/status/info.ts";
import { healthRoute, infoRoutes, statusRoutes } from "#runtime/status/routes.ts";
import type { Port } from "#serve/port.ts";
import { logRoutes } from "#telemetry/log/routes.ts";
import { metricsRoute } from "#telemetry/metrics/metrics.ts";
import { openGuarded } from "./guarded-port.ts";
import type { ProcessPart, ProcessSettings, SluiceProcess } from "./process.ts";
import { openTelemetryPorts } from "./telemetry-ports.ts";
import type { NamedPort } from "./zpages.ts";

export interface Ports {
  readonly main: Port;
  /** Undefined where the main port serves administration, or none does. */
  readonly administration: Port | undefined;
  /** Addresses of the ports of `otel.ports` that are open. */
  readonly telemetry: ReadonlyMap<keyof ProcessSettings["otel"]["ports"], string>;
}

/** Opens all ports. From now on the process is ready and accepts calls. */
export async function openPorts(
  process: SluiceProcess,
  parts: readonly ProcessPart[],
): Promise<Ports> {
  const { health, scope, settings } = process;
  compactHeap();
  useOptimizingCompilers();
  const ports: NamedPort[] = [];
  const own = processRoutes(process);
  const profiling = await startProfiling(process);
  // These ports and administration open first and close last, so that they can be asked while the main port drains.
  const telemetry = await openTelemetryPorts(process, {
    process: own,
    profiles: profiling,
    ports: () => ports,
  });
  for (const [name, port] of telemetry) ports.push({ name, port });
  const whole = {
    routes: [
      ...parts.flatMap(({ routes }) => routes),
      ...own,
      ...(settings.profilers.register_http_routes ? profiling : []),
    ],
    services: parts.flatMap(({ services }) => services),
  };
  const administration = await openAdministrationPort(process, whole);
  if (administration !== undefined) {
    scope.add("administration", () => administration.cut());
    ports.push({ name: "administration", port: administration });
  }
  const main = await openMainPort(process, whole);
  ports.push({ name: "port", port: main });
  scope.add("port", (speed) => {
    health.enter("stopping");
    return speed === "cut" ? main.cut() : main.drain();
  });
  health.enter("running");
  for (const { opened } of parts) opened?.(main.address);
  const addresses = [...telemetry].map(([key, { address }]) => [key, address] as const);
  return { main, administration, telemetry: new Map(addresses) };
}

/** The routes of the process itself: health, status, info, metrics and the levels of its log. */
export function processRoutes({
  service,
  metrics,
  health,
  clock,
  id,
  logLevels,
}: Pick<
  SluiceProcess,
  "service" | "metrics" | "health" | "clock" | "id" | "logLevels"
>): readonly Route[] {
  return [
    healthRoute(() => health.phase === "running"),
    ...statusRoutes(health.root),
    ...infoRoutes(info(service, clock, id)),
    metricsRoute(metrics),
    ...(logLevels === undefined ? [] : logRoutes(logLevels)),
  ];
}

/** Starts the profile of the whole run, if there is to be one. Returns the routes of profiles. */
async function startProfiling(process: SluiceProcess): Promise<readonly Route[]> {
  const { service, settings, argv, clock, profiler, scope } = process;
  const profiling = profiles(settings.profilers, { service, argv, clock, profiler });
  scope.add("processor profile", await profiling.start());
  return profiling.routes;
}

function filtered({ routes, services }: ProcessPart, keep: typeof isAdministration): ProcessPart {
  return { routes: routes.filter(keep), services: services.filter(keep) };
}

async function openMainPort(process: SluiceProcess, whole: ProcessPart): Promise<Port> {
  const { server } = process.settings;
  const { enabled, addr } = server.administration;
  const everything = enabled && addr === "";
  const port = await openGuarded(process, {
    name: "port",
    settings: everything
      ? server
      : { ...server, grpc: { ...server.grpc, enable_reflection: false } },
    part: everything ? whole : filtered(whole, (served) => !isAdministration(served)),
  });
  const { address } = port;
  process.log.child("port").info({ address }, `listening on ${address}`);
  return port;
}

/** Opens `server.administration.addr`, if there is one. */
async function openAdministrationPort(
  process: SluiceProcess,
  whole: ProcessPart,
): Promise<Port | undefined> {
  const { server } = process.settings;
  const { enabled, addr } = server.administration;
  if (!enabled || addr === "") return undefined;
  const port = await openGuarded(process, {
    name: "administration",
    settings: {
      ...server,
      listener: { ...server.listener, addr, key: "server.administration.addr" },
      tls: { ...server.tls, enabled: server.tls.enabled && !addr.startsWith("unix:") },
    },
    part: filtered(whole, isAdministration),
  });
  const { address } = port;
  process.log.child("administration").info({ address }, `administration listens on ${address}`);
  return port;
}
