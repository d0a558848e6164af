// Makes room for a new connection of an address that has no slot left by closing one of its idle connections. Otherwise
// a client that opens many and leaves them idle would lock out everybody at its address.

import { addressKey } from "./connection-slots.ts";

export interface Displaceable {
  /** True if a call has been made on it. */
  readonly hasCalled: boolean;
  /** Bytes that its peer has sent. */
  readonly read: number;
  /** The same at the last inspection. */
  readAtInspection: number;
  /** Consecutive inspections in which it had sent nothing since the one before. */
  quietInspections: number;
  /** Closes it unless a call is in progress on it. Returns whether it did. */
  closeIdle(): boolean;
}

/**
 * Connections that are inspected for each new one. Inspecting all would let a client that opens many use up the time of
 * the process.
 */
const MAX_INSPECTED = 32;

export class Displacement {
  /** By address, the least recently inspected first. */
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
   * Closes an idle connection of this address: one without any call, or else the one that has been quiet for the most
   * inspections. Returns false if no inspected connection can be closed. If those without any call have sent bytes that
   * are queued, the others stay: served connections have priority over new ones.
   */
  makeRoom(remoteAddress: string | undefined): boolean {
    const all = this.#byAddress.get(addressKey(remoteAddress));
    if (all === undefined) return false;
    const oldest: Displaceable[] = [];
    for (const connection of all) if (oldest.push(connection) === MAX_INSPECTED) break;
    for (const connection of oldest) {
      all.delete(connection);
      all.add(connection);
      const { read, readAtInspection, quietInspections } = connection;
      connection.quietInspections = read === readAtInspection ? quietInspections + 1 : 0;
      connection.readAtInspection = read;
    }
    const unused = oldest.filter(({ hasCalled }) => !hasCalled);
    const chosen =
      unused.length > 0
        ? unused
        : oldest.sort((one, other) => other.quietInspections - one.quietInspections);
    return chosen.some((connection) => connection.closeIdle());
  }
}
