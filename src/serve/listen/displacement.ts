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
  /** How often in succession it was looked at and had sent nothing since. */
  quietLooks: number;
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
   * Closes an idle connection of this address: one on which no call has been made, or else the one that has been quiet for
   * the most looks. Returns false if no connection that was looked at can be closed. Where those without any call have sent
   * bytes that await their turn, the others stay: whoever has been served goes before a newcomer.
   */
  makeRoom(remoteAddress: string | undefined): boolean {
    const all = this.#byAddress.get(addressKey(remoteAddress));
    if (all === undefined) return false;
    const oldest: Displaceable[] = [];
    for (const connection of all) if (oldest.push(connection) === MAX_LOOKED_AT) break;
    for (const connection of oldest) {
      all.delete(connection);
      all.add(connection);
      const { read, readAtLastLook, quietLooks } = connection;
      connection.quietLooks = read === readAtLastLook ? quietLooks + 1 : 0;
      connection.readAtLastLook = read;
    }
    const unused = oldest.filter(({ hasCalled }) => !hasCalled);
    const chosen =
      unused.length > 0 ? unused : oldest.sort((one, other) => other.quietLooks - one.quietLooks);
    return chosen.some((connection) => connection.closeIdle());
  }
}
