// The ports of `otel.ports`, beside the main port: metrics, health, profiles and debug pages, each of which can be
// asked while the main port is busy or drains.

import { Fault } from "#base/fault.ts";
import { isAdministration, type Route } from "#base/handler.ts";
import { joinHostPort, splitHostPort } from "#base/net/host-port.ts";
import { probeRoute } from "#runtime/status/routes.ts";
import type { Port } from "#serve/port.ts";
import { metricsRoute } from "#telemetry/metrics/metrics.ts";
import { openGuarded } from "./guarded-port.ts";
import type { ProcessSettings, SluiceProcess } from "./process.ts";
import { debugPages, type NamedPort } from "./zpages.ts";

type PortKey = Exclude<keyof ProcessSettings["otel"]["ports"], "host">;

interface TelemetryPort {
  readonly key: PortKey;
  readonly name: string;
  readonly routes: readonly Route[];
}

/** The routes and facts that the ports serve. */
export interface TelemetryRoutes {
  /** The routes of the process, of which the health port has those of health. */
  readonly process: readonly Route[];
  readonly profiles: readonly Route[];
  /** All ports that are open when the debug pages are read. */
  readonly ports: () => readonly NamedPort[];
}

/**
 * Opens the ports that are configured; 0 means none. A port that was not configured explicitly and is taken (by a second
 * agent on one machine, say) is left out with a warning.
 */
export async function openTelemetryPorts(
  process: SluiceProcess,
  { process: own, profiles, ports }: TelemetryRoutes,
): Promise<ReadonlyMap<PortKey, Port>> {
  const { metrics, health, serverMetrics, clock, settings } = process;
  const isHealth = ({ path, access }: Route) =>
    access === "open" && (path === "/healthz" || path.startsWith("/v1/status/"));
  const wanted: readonly TelemetryPort[] = [
    { key: "debug_port", name: "debug-port", routes: [metricsRoute(metrics)] },
    {
      key: "health_check_port",
      name: "health-check-port",
      routes: [probeRoute(() => health.healthy), ...own.filter(isHealth)],
    },
    { key: "pprof_port", name: "pprof-port", routes: profiles },
    {
      key: "zpages_port",
      name: "zpages-port",
      routes: debugPages({ slow: serverMetrics.slow, clock, ports }),
    },
  ];
  if (settings.otel.ports.zpages_port !== 0) serverMetrics.slow.record(clock);
  const opened = new Map<PortKey, Port>();
  for (const each of wanted) {
    const port = await openTelemetryPort(process, each);
    if (port === undefined) continue;
    process.scope.add(each.name, () => port.cut());
    opened.set(each.key, port);
  }
  return opened;
}

async function openTelemetryPort(
  process: SluiceProcess,
  { key, name, routes }: TelemetryPort,
): Promise<Port | undefined> {
  const { settings, isChosen } = process;
  const { server } = settings;
  const number = settings.otel.ports[key];
  const path = `otel.ports.${key}`;
  if (number === 0) return undefined;
  const log = process.log.child(name);
  const administration = routes.some(isAdministration);
  if (administration && !server.administration.enabled) {
    const why = "it carries administration, and server.administration.enabled is false";
    if (isChosen(path)) log.warn({ port: number }, `${path} is not opened: ${why}`);
    return undefined;
  }
  // Metrics and health are for collectors and probes on other machines; what shows the inside is for this one.
  const host = administration ? "127.0.0.1" : settings.otel.ports.host || mainHost(settings);
  try {
    return await openGuarded(process, {
      name,
      settings: {
        ...server,
        listener: {
          ...server.listener,
          addr: joinHostPort(host, number),
          key: path,
          ...(administration && { network: "tcp" }),
        },
        grpc: { ...server.grpc, enable_reflection: false },
      },
      part: { routes, services: [] },
    });
  } catch (thrown) {
    const fault = Fault.from(thrown);
    if (isChosen(path)) throw fault;
    const why = fault.message.replace(`cannot listen on ${path}: `, "");
    log.warn({ port: number }, `${path} is not opened: ${why}`);
    return undefined;
  }
}

/** The interface of the main port; loopback where that is a Unix socket, which only this machine reaches. */
function mainHost({ server }: ProcessSettings): string {
  const { addr } = server.listener;
  if (addr.startsWith("unix:")) return "127.0.0.1";
  return splitHostPort(addr).host;
}
