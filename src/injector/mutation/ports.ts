// The ports that a pod uses according to its specification, and the agent's ports in it.

import { type Container, isObject, listAt, type Pod } from "../pod.ts";
import {
  ENVOY_PROBES_PORT,
  type InjectionSettings,
  SIDECAR_HEALTH_PORT,
  SIDECAR_METRICS_PORT,
} from "../settings.ts";
import { ENVOY_NAME } from "./envoy.ts";
import { AGENT_NAMES, type AgentPorts, TELEMETRY_PORTS } from "./sidecar.ts";

/** How many ports are tried, starting with the default. */
const PORTS_TRIED = 100;

/** True if injection added the container. */
export function isOurs({ name }: Container): boolean {
  return AGENT_NAMES.includes(name) || name === ENVOY_NAME;
}

/** All long-running containers. Other init containers end first and share no port with them. */
export function everyContainer({ initContainers, containers }: Pod): readonly Container[] {
  const goOn = initContainers.filter((container) => container["restartPolicy"] === "Always");
  return [...goOn, ...containers];
}

/** Ports over TCP that it declares. */
export function portsOf(
  container: Container,
): readonly { readonly name: string; readonly port: number }[] {
  return listAt(container["ports"]).flatMap(({ containerPort, protocol = "TCP" }) =>
    typeof containerPort === "number" && protocol === "TCP"
      ? [{ name: container.name, port: containerPort }]
      : [],
  );
}

/** The ports that the probes of a container name by number; named ports are declared anyway. */
export function probedPorts(container: Container): readonly number[] {
  return ["startupProbe", "readinessProbe", "livenessProbe"].flatMap((kind) => {
    const probe = container[kind];
    if (!isObject(probe)) return [];
    return ["httpGet", "tcpSocket", "grpc"].flatMap((how) => {
      const action = probe[how];
      const port = isObject(action) ? Number(action["port"]) : Number.NaN;
      return Number.isInteger(port) ? [port] : [];
    });
  });
}

/**
 * Every number in the application's containers: declared ports, ports of probes, and numbers in variables and arguments.
 */
function numbersIn({ initContainers, containers }: Pod): ReadonlySet<number> {
  const others = [...initContainers, ...containers].filter((container) => !isOurs(container));
  const found = JSON.stringify(others).match(/(?<![0-9])[0-9]{1,5}(?![0-9])/g) ?? [];
  return new Set(found.map(Number));
}

/**
 * If only the injected Envoy calls the agent, it listens on loopback, and its default port gives way to ports of the pod.
 * Kubelets, which do not use loopback, then ask another port. `main` is the port that the author of the pod chose,
 * `application` is the one behind Envoy, and at `probes` Envoy answers kubelets.
 */
export function agentPorts(
  pod: Pod,
  { sidecar, envoy }: InjectionSettings,
  { main, application }: Readonly<Record<"main" | "application", number | undefined>>,
): AgentPorts & { readonly probes: number } {
  const taken = new Set(numbersIn(pod));
  const take = (wanted: number) => {
    taken.add(wanted);
    return wanted;
  };
  for (const { containerPort } of sidecar.otherPorts) take(containerPort);
  if (application !== undefined)
    for (const each of [application, envoy.port, envoy.adminPort]) take(each);
  const free = (from: number) => {
    const tried = Array.from({ length: PORTS_TRIED }, (_, at) => from + at);
    return take(tried.find((each) => !taken.has(each)) ?? from);
  };
  const isConfigured = (variable: string) => sidecar.env.some(({ name }) => name === variable);
  const isPrivate = !sidecar.isPortChosen && application !== undefined;
  const hasHealth = isPrivate && !isConfigured(TELEMETRY_PORTS.health);
  return {
    main: take(main ?? (isPrivate ? free(sidecar.port) : sidecar.port)),
    metrics: isConfigured(TELEMETRY_PORTS.metrics) ? undefined : free(SIDECAR_METRICS_PORT),
    health: hasHealth ? free(SIDECAR_HEALTH_PORT) : undefined,
    probes: free(ENVOY_PROBES_PORT),
  };
}
