// What carries calls over connections that the listener has already told apart. One transport speaks one
// tongue; another make of the same tongue fits behind this without the services noticing.

import type { Socket } from "node:net";

export interface Transport {
  /** Takes a connection over. Bytes read from it so far have been put back. */
  inject(socket: Socket): void;
  /** A drain has begun: everything is still answered, callers are asked to move on. */
  leave(): void;
  /** No new work. Calls in hand may end within `grace` ms; their connections then close. */
  drain(grace: number): void;
  /** Lets go of everything that outlives the connections, which the port destroys itself. */
  cut(): void;
}
