// The ports that a pod uses, as far as its specification says.

import { type Container, isObject, listAt, type Pod } from "../pod.ts";
import { ENVOY_NAME } from "./envoy.ts";
import { AGENT_NAMES } from "./sidecar.ts";

/** Whether it is a container of injection. */
export function isOurs({ name }: Container): boolean {
  return AGENT_NAMES.includes(name) || name === ENVOY_NAME;
}

/** Init containers that go on, and the others. Init containers that end first share no port with anything. */
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

/** Numbers of the ports that the probes of a container ask; a named port is declared. */
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
 * Every number that the containers of the application mention: ports that they declare, those of probes, and those that
 * variables and arguments name in any form.
 */
export function numbersIn({ initContainers, containers }: Pod): ReadonlySet<number> {
  const others = [...initContainers, ...containers].filter((container) => !isOurs(container));
  const found = JSON.stringify(others).match(/(?<![0-9])[0-9]{1,5}(?![0-9])/g) ?? [];
  return new Set(found.map(Number));
}
