// The services of this pod, from the records of its addresses in the store. Records that the store lost stay until a
// controller has written again.

import type { Entity } from "#base/net/entity.ts";
import type { StoreUpdate } from "#store/store.ts";
import { readEntity } from "#sync/entities.ts";
import { DISCOVERED, entityKey } from "#sync/keys.ts";

/** Peers at these addresses are in the same pod, because its containers share one network. */
const LOOPBACK: readonly string[] = ["127.0.0.1", "::1"];
const NONE: readonly string[] = [];

export class OwnPod {
  /** Addresses by key. */
  readonly #addresses: ReadonlyMap<string, string>;
  readonly #entities = new Map<string, Entity>();
  /** Keys that the store lost. */
  readonly #lost = new Set<string>();
  /** By address, including the loopback addresses. */
  #services = new Map<string, readonly string[]>();
  #isLost = false;

  /** The addresses in canonical form. */
  constructor(addresses: readonly string[]) {
    this.#addresses = new Map(addresses.map((address) => [entityKey(address), address]));
    this.#index();
  }

  /** True if the store lost its data, and no controller has written all of it since. */
  get isLost(): boolean {
    return this.#isLost;
  }

  get entities(): readonly Entity[] {
    return [...this.#entities.values()];
  }

  /** Services of all addresses together. */
  get services(): readonly string[] {
    const [only, ...others] = this.entities;
    if (only === undefined || others.length === 0) return only?.services ?? NONE;
    const all = [only, ...others].flatMap(({ services }) => services);
    return [...new Set(all)].toSorted();
  }

  at(address: string): Entity | undefined {
    return this.#entities.get(address);
  }

  /** Undefined for an address of another pod. */
  byAddress(address: string): readonly string[] | undefined {
    return this.#services.get(address);
  }

  /** @throws Fault for a value that cannot be read; the record before it stays */
  apply({ puts, deletes, reset = false }: StoreUpdate): void {
    this.#isLost ||= reset;
    for (const key of deletes) {
      const address = this.#addresses.get(key);
      if (address === undefined) continue;
      if (this.#isLost) this.#lost.add(key);
      else this.#entities.delete(address);
    }
    try {
      for (const { key, value } of puts) {
        const address = this.#addresses.get(key);
        if (address === undefined) continue;
        this.#entities.set(address, { ...readEntity(value), ipAddress: address });
        this.#lost.delete(key);
      }
    } finally {
      if (puts.some(({ key }) => key === DISCOVERED)) this.#complete();
      this.#index();
    }
  }

  /** A controller has written all records: those that are still missing are gone. */
  #complete(): void {
    this.#isLost = false;
    for (const key of this.#lost) this.#entities.delete(this.#addresses.get(key) ?? "");
    this.#lost.clear();
  }

  #index(): void {
    const found = new Map<string, readonly string[]>();
    if (this.#addresses.size > 0) for (const each of LOOPBACK) found.set(each, this.services);
    for (const address of this.#addresses.values())
      found.set(address, this.#entities.get(address)?.services ?? NONE);
    this.#services = found;
  }
}
