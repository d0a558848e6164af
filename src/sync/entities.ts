// A pod or a Service at an IP address as a stored message. The leading controller writes it, and agents read it.

import type { Entity } from "#base/net/entity.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";

const MESSAGE = "aperture.discovery.entities.v1.Entity";

/** Maximum number of services that are stored for one address, to keep values small. The first by name are kept. */
export const MAX_SERVICES = 500;

export function writeEntity(entity: Entity): Uint8Array {
  return encode(MESSAGE, { ...entity, services: entity.services.slice(0, MAX_SERVICES) });
}

/** @throws Fault for bytes that are not such a message */
export function readEntity(value: Uint8Array): Entity {
  const { uid, ipAddress, name, namespace, nodeName, services } = decode(MESSAGE, value);
  return { uid, ipAddress, name, namespace, nodeName, services: services.slice(0, MAX_SERVICES) };
}
