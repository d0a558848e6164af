// Makes room for a new connection of an address that has no place left: closes one of its connections that has been idle
// for long, so that somebody who opens many and lets them lie keeps nobody else at the same address out.

import { addressKey } from "./places.ts";

/** An open connection as it is chosen. */
export interface Displaceable {
  /** Whether a call has been made on it. */
  readonly hasCalled: boolean;
  /** Bytes that its peer has sent. */
  readonly read: number;
  /** The same when it was looked at last. */
  readAtLastLook: number;
  /** Closes it unless a call is in progress on it. Returns whether it did. */
  closeIdle(): boolean;
}

/**
 * Connections that are looked at for each new one. Looking at all would let somebody who keeps opening more use up the
 * time of the process.
 */
const MAX_LOOKED_AT = 32;

export class Displacement {
  /** The connections of each address. Those that were looked at are at the end. */
  readonly #byAddress = new Map<string, Set<Displaceable>>();

  add(remoteAddress: string | undefined, connection: Displaceable): void {
    const key = addressKey(remoteAddress);
    const all = this.#byAddress.get(key);
    if (all === undefined) this.#byAddress.set(key, new Set([connection]));
    else all.add(connection);
  }

  remove(remoteAddress: string | undefined, connection: Displaceable): void {
    const key = addressKey(remoteAddress);
    const all = this.#byAddress.get(key);
    all?.delete(connection);
    if (all?.size === 0) this.#byAddress.delete(key);
  }

  /**
   * Closes an idle connection of this address: one on which no call has been made; or else one that has sent nothing since
   * it was looked at last; or else any. Returns false if a call is in progress on each that was looked at.
   */
  makeRoom(remoteAddress: string | undefined): boolean {
    const all = this.#byAddress.get(addressKey(remoteAddress));
    if (all === undefined) return false;
    const oldest: Displaceable[] = [];
    for (const connection of all) if (oldest.push(connection) === MAX_LOOKED_AT) break;
    const unused: Displaceable[] = [];
    const quiet: Displaceable[] = [];
    const active: Displaceable[] = [];
    for (const connection of oldest) {
      all.delete(connection);
      all.add(connection);
      const { hasCalled, read, readAtLastLook } = connection;
      connection.readAtLastLook = read;
      (!hasCalled ? unused : read === readAtLastLook ? quiet : active).push(connection);
    }
    return [...unused, ...quiet, ...active].some((connection) => connection.closeIdle());
  }
}
