// The pods and services that service discovery found, as a gRPC service and JSON routes.

import { Fault } from "#base/fault.ts";
import type { GrpcService, Route } from "#base/handler.ts";
import type { Entity } from "#base/net/entity.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { administrationService, viewRoute } from "../reply/json-reply.ts";

export interface EntityDirectory {
  /** The entity at an address in canonical form. */
  at(address: string): Entity | undefined;
  /** One for each address. */
  all(): Iterable<Entity>;
  /** By `namespace/name`. */
  byName(): ReadonlyMap<string, Entity>;
}

/** The directory of an agent without service discovery. */
export const NO_ENTITIES: EntityDirectory = {
  at: () => undefined,
  all: () => [],
  byName: () => new Map(),
};

function entityAt(entities: EntityDirectory, address: string): Entity {
  const found = entities.at(canonicalAddress(address));
  if (found === undefined) throw notFound();
  return found;
}

/** By `namespace/name`, or by the name alone where no other namespace has the same. */
function entityNamed(entities: EntityDirectory, name: string): Entity {
  const all = entities.byName();
  const exact = all.get(name);
  if (exact !== undefined) return exact;
  const namesakes = [...all.values()].filter((each) => each.name === name);
  const [only, ...others] = namesakes;
  if (only === undefined) throw notFound();
  if (others.length > 0) {
    const wanted = "wanted namespace/name, because several namespaces have an entity of this name";
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got only the name`);
  }
  return only;
}

function notFound(): Fault {
  return new Fault("NOT_FOUND", "entity not found");
}

/** An entity in JSON. */
export function entityJson({ uid, ipAddress, name, namespace, nodeName, services }: Entity) {
  return { uid, ip_address: ipAddress, name, namespace, node_name: nodeName, services };
}

export function entityRoutes(entities: EntityDirectory): readonly Route[] {
  return [
    viewRoute(
      "/v1/discovery/entities",
      "The pods and services that service discovery knows, by IP address and by name.",
      () => {
        const byAddress = [...entities.all()].map((each) => [each.ipAddress, entityJson(each)]);
        const byName = [...entities.byName()].map(([name, each]) => [name, entityJson(each)]);
        return {
          entities_by_ip_address: { entities: Object.fromEntries(byAddress) },
          entities_by_name: { entities: Object.fromEntries(byName) },
        };
      },
    ),
    viewRoute(
      "/v1/discovery/entities/ip-address/{ip_address}",
      "The entity at this IP address.",
      ({ params }) => entityJson(entityAt(entities, params["ip_address"] ?? "")),
      { costly: false },
    ),
    viewRoute(
      "/v1/discovery/entities/name/{name...}",
      "The entity of this name: `namespace/name`, or the name where only one has it.",
      ({ params }) => entityJson(entityNamed(entities, params["name"] ?? "")),
    ),
  ];
}

const ENTITY = "aperture.discovery.entities.v1.Entity";

export function entityGrpcService(entities: EntityDirectory): GrpcService {
  const service = administrationService("aperture.discovery.entities.v1.EntitiesService", {
    GetEntities() {
      const byAddress = [...entities.all()].map((each) => [each.ipAddress, each]);
      return encode("aperture.discovery.entities.v1.Entities", {
        entitiesByIpAddress: { entities: Object.fromEntries(byAddress) },
        entitiesByName: { entities: Object.fromEntries(entities.byName()) },
      });
    },
    GetEntityByIPAddress(message) {
      const request = "aperture.discovery.entities.v1.GetEntityByIPAddressRequest";
      return encode(ENTITY, entityAt(entities, decode(request, message).ipAddress));
    },
    GetEntityByName(message) {
      const request = "aperture.discovery.entities.v1.GetEntityByNameRequest";
      return encode(ENTITY, entityNamed(entities, decode(request, message).name));
    },
  });
  return { ...service, healthNames: [] };
}
