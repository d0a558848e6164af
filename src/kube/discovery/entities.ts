// The cluster's network by IP address: the pod or service at an address, and its services. The result depends only on the
// present objects, never on the order in which they arrived.

import type { Entity } from "#base/net/entity.ts";

/** The most addresses that are kept. Further ones are left out and counted. */
const MAX_ADDRESSES = 200_000;
/** Addresses that were left out are added again when at most this share of the limit is used. */
const REFILL_BELOW = 0.9;
const NONE: readonly string[] = [];

/**
 * Each object (an EndpointSlice, a Service) names entities, with one service each. Where several objects name the same
 * address, the entity there has the services of all of them. Pods that share the address of their node are one entity
 * by address, called after the first of them by name, because nothing else tells their traffic apart.
 */
export class Entities {
  readonly #maxAddresses: number;
  readonly #changed: (address: string) => void;
  readonly #objects = new Map<string, readonly Entity[]>();
  readonly #byAddress = new Map<string, Entity>();
  /** Entities by address, for addresses with several. */
  readonly #shared = new Map<string, readonly Entity[]>();
  #named = 0;
  #leftOut = 0;

  /** `changed` is called with each address whose entity may have changed. */
  constructor(maxAddresses = MAX_ADDRESSES, changed: (address: string) => void = () => undefined) {
    this.#maxAddresses = maxAddresses;
    this.#changed = changed;
  }

  get size(): number {
    return this.#byAddress.size;
  }

  /** Number of addresses that are left out because there are too many. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** The services at a canonical address; empty when it is unknown. */
  byAddress(address: string): readonly string[] {
    return this.#byAddress.get(address)?.services ?? NONE;
  }

  at(address: string): Entity | undefined {
    return this.#byAddress.get(address);
  }

  all(): IterableIterator<Entity> {
    return this.#byAddress.values();
  }

  /** Each entity once, by `namespace/name`. One with several addresses is shown with the first, IPv4 before IPv6. */
  byName(): ReadonlyMap<string, Entity> {
    const found = new Map<string, Entity[]>();
    for (const [address, entity] of this.#byAddress) {
      for (const each of this.#shared.get(address) ?? [entity]) {
        const name = `${each.namespace}/${each.name}`;
        const others = found.get(name);
        if (others === undefined) found.set(name, [each]);
        else others.push(each);
      }
    }
    return new Map([...found].map(([name, entities]) => [name, merged(entities)]));
  }

  /** Replaces the entities that an object names. */
  set(object: string, entities: readonly Entity[]): void {
    this.#remove(object);
    this.#objects.set(object, entities);
    for (const entity of entities) this.#add(entity);
    this.#fill();
  }

  delete(object: string): void {
    this.#remove(object);
    this.#fill();
  }

  #add(entity: Entity): void {
    if (this.#named >= this.#maxAddresses) {
      this.#leftOut += 1;
      return;
    }
    this.#named += 1;
    const { ipAddress } = entity;
    const present = this.#at(ipAddress);
    this.#put(ipAddress, [...present, entity]);
  }

  #remove(object: string): void {
    for (const entity of this.#objects.get(object) ?? []) {
      const { ipAddress } = entity;
      const present = this.#at(ipAddress);
      const others = present.filter((each) => each !== entity);
      if (others.length === present.length) this.#leftOut -= 1;
      else {
        this.#named -= 1;
        this.#put(ipAddress, others);
      }
    }
    this.#objects.delete(object);
  }

  #at(address: string): readonly Entity[] {
    const shared = this.#shared.get(address);
    if (shared !== undefined) return shared;
    const only = this.#byAddress.get(address);
    return only === undefined ? [] : [only];
  }

  #put(address: string, entities: readonly Entity[]): void {
    const [first] = entities;
    if (entities.length > 1) this.#shared.set(address, entities);
    else this.#shared.delete(address);
    if (first === undefined) this.#byAddress.delete(address);
    else this.#byAddress.set(address, entities.length === 1 ? first : merged(entities));
    this.#changed(address);
  }

  /** Adds addresses that were left out, once there is room for more than a few. */
  #fill(): void {
    if (this.#leftOut === 0 || this.#named > this.#maxAddresses * REFILL_BELOW) return;
    this.#leftOut = 0;
    for (const entities of this.#objects.values()) {
      for (const entity of entities) {
        if (!this.#at(entity.ipAddress).includes(entity)) this.#add(entity);
      }
    }
  }
}

/** One entity for several: the first by name and address, with the services of all. */
function merged(entities: readonly Entity[]): Entity {
  const [first, ...others] = entities.toSorted(compare);
  if (first === undefined) throw new RangeError("wanted an entity, got none");
  if (others.length === 0) return first;
  const services = new Set(entities.flatMap((each) => each.services));
  return { ...first, services: [...services].toSorted() };
}

function compare(left: Entity, right: Entity): number {
  const [a, b] = [orderOf(left), orderOf(right)];
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function orderOf({ namespace, name, ipAddress, uid, nodeName }: Entity): string {
  const family = ipAddress.includes(":") ? 6 : 4;
  return [namespace, name, family, ipAddress, uid, nodeName].join("\n");
}
