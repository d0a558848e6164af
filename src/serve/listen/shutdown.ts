// Ends the port, in order within the grace time or at once. Each step happens once, however often it is requested.

import type { Server } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pause } from "#base/async/wait.ts";
import type { Clock } from "#base/clock.ts";
import type { GrpcService } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { ReadScheduler } from "#h2/read-scheduler.ts";
import type { DrainSettings } from "../settings.ts";
import type { Transport } from "../transport.ts";
import type { ConnectionAcceptor } from "./acceptor.ts";

/**
 * Turns of the event loop without a new connection after which the system has none left: one turn accepts a connection,
 * the next reads it.
 */
const QUIET_TURNS = 4;
/** Turns to wait for them at most: more than the system queues connections. */
const MAX_TURNS = 2_048;

interface ShutdownOptions {
  readonly listener: Server;
  readonly acceptor: ConnectionAcceptor;
  readonly health: { beginDrain(): void; close(): void };
  readonly services: readonly Pick<GrpcService, "drain">[];
  readonly transports: readonly Transport[];
  readonly scheduler: ReadScheduler;
  /** Releases everything that is not a connection. */
  readonly release: () => void;
}

export class Shutdown {
  readonly #options: ShutdownOptions;
  readonly #cut = new AbortController();
  #draining: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: ShutdownOptions) {
    this.#options = parts;
  }

  drain(settings: DrainSettings, clock: Clock, log: Log): Promise<void> {
    this.#draining ??= this.#inOrder(settings, clock, log);
    return this.#draining;
  }

  async cut(): Promise<void> {
    this.#cut.abort();
    const closed = this.#close();
    this.#options.health.close();
    this.#options.acceptor.destroyAll();
    await closed;
  }

  async #inOrder({ accept_for, grace }: DrainSettings, clock: Clock, log: Log): Promise<void> {
    const { health, services, acceptor, transports } = this.#options;
    health.beginDrain();
    for (const transport of transports) transport.beginDrain();
    if (accept_for > 0) await pause(accept_for, clock, this.#cut.signal);
    // To their peers, connections that wait in the system's queue are open.
    await this.#awaitQuietQueue();
    const closed = this.#close();
    await acceptor.awaitFirstRequests(grace);
    await this.#awaitQuietQueue();
    if (this.#cut.signal.aborted) return closed;
    health.close();
    for (const service of services) service.drain?.();
    acceptor.closePending();
    for (const transport of transports) transport.drain(grace);
    const forget = clock.alarm(grace, () => {
      log.warn({}, "cutting calls that did not end within the grace time");
      acceptor.destroyAll();
    });
    await closed;
    forget();
  }

  /** Stops listening; resolves when the last connection has ended and everything is released. */
  #close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#options.listener.close(() => {
        this.#options.release();
        resolve();
      });
    });
    return this.#closed;
  }

  /** Waits until no connection is being accepted and the bytes of new ones are handled. */
  async #awaitQuietQueue(): Promise<void> {
    const { scheduler } = this.#options;
    let quiet = 0;
    for (let turn = 0; turn < MAX_TURNS && quiet < QUIET_TURNS; turn++) {
      if (this.#cut.signal.aborted) return;
      await nextTurn();
      quiet = scheduler.accepting ? 0 : quiet + 1;
    }
  }
}
