// Divides the connections that a port may have open: no peer on another machine can hold them all, and some are kept for
// addresses that hold few, such as those of probes.

import { isLoopbackAddress, plainAddress } from "../transport/peer-address.ts";

/** Share of all places that one address may hold. Loopback addresses and Unix sockets have no such limit. */
const SHARE_PER_ADDRESS = 0.5;
/** Share of all places that is kept for addresses which hold few. */
const KEPT_FREE = 0.05;
/** As many connections as the probes of an orchestrator and a metrics server have open at once. */
const FEW = 8;

export class Places {
  readonly #most: number;
  readonly #mostPerAddress: number;
  readonly #mostInUse: number;
  readonly #byAddress = new Map<string, number>();
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
    this.#mostPerAddress = Math.max(1, Math.floor(most * SHARE_PER_ADDRESS));
    this.#mostInUse = most - Math.floor(most * KEPT_FREE);
  }

  /** Takes a place for a connection from this address, undefined on a Unix socket. Returns false if there is none. */
  take(remoteAddress: string | undefined): boolean {
    const address = plainAddress(remoteAddress ?? "");
    const held = this.#byAddress.get(address) ?? 0;
    const local = remoteAddress === undefined || isLoopbackAddress(address);
    if (this.#taken >= this.#most || (!local && held >= this.#mostPerAddress)) return false;
    if (this.#taken >= this.#mostInUse && held >= FEW) return false;
    this.#byAddress.set(address, held + 1);
    this.#taken++;
    return true;
  }

  /** Gives back a place that was taken for this address. */
  release(remoteAddress: string | undefined): void {
    const address = plainAddress(remoteAddress ?? "");
    const held = (this.#byAddress.get(address) ?? 1) - 1;
    if (held > 0) this.#byAddress.set(address, held);
    else this.#byAddress.delete(address);
    this.#taken--;
  }
}
