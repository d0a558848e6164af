// Divides the connections of a port among addresses: no peer on another machine can hold them all, and some are kept
// for addresses that hold few, such as those of probes. A peer can use every address of its 64-bit IPv6 network
// (RFC 4291 §2.5.1), so such a network counts as one address.

import { isLoopback, networkOf } from "#base/net/ip-address.ts";
import type { RefusedConnection } from "#base/server-meter.ts";

/** The share that one address may hold. Loopback addresses and Unix sockets have no such limit. */
const SHARE_PER_ADDRESS = 0.5;
/** The share that is kept for addresses which hold few. */
const KEPT_FREE = 0.05;
/** Connections that the probes of an orchestrator and a metrics server have open at once. */
const FEW = 8;

export class ConnectionSlots {
  readonly #limit: number;
  readonly #limitPerAddress: number;
  readonly #generalLimit: number;
  readonly #byAddress = new Map<string, number>();
  #taken = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#limitPerAddress = Math.max(1, Math.floor(limit * SHARE_PER_ADDRESS));
    this.#generalLimit = limit - Math.floor(limit * KEPT_FREE);
  }

  /**
   * Takes a slot for a connection from this address (undefined on a Unix socket). Returns the reason if there is none.
   */
  take(remoteAddress: string | undefined): RefusedConnection | undefined {
    const key = addressKey(remoteAddress);
    const held = this.#byAddress.get(key) ?? 0;
    if (this.#taken >= this.#limit) return "too_many";
    if (held >= this.#limitPerAddress && !isLocal(remoteAddress)) return "too_many_of_address";
    if (this.#taken >= this.#generalLimit && held >= FEW) return "too_many";
    this.#byAddress.set(key, held + 1);
    this.#taken++;
    return undefined;
  }

  release(remoteAddress: string | undefined): void {
    const key = addressKey(remoteAddress);
    const held = (this.#byAddress.get(key) ?? 1) - 1;
    if (held > 0) this.#byAddress.set(key, held);
    else this.#byAddress.delete(key);
    this.#taken--;
  }
}

/** Connections with the same key are counted together. */
export function addressKey(remoteAddress: string | undefined): string {
  return networkOf(remoteAddress ?? "", 32, 64);
}

function isLocal(remoteAddress: string | undefined): boolean {
  return remoteAddress === undefined || isLoopback(remoteAddress);
}
