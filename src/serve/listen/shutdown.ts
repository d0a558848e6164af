// Ends the port: in order and within the grace time, or at once. Each step happens only once, no matter how often it
// is requested.

import type { Server } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Log } from "#base/log.ts";
import type { DrainSettings } from "../settings.ts";
import type { Transport } from "../transport/transport.ts";
import type { ConnectionAcceptor } from "./acceptor.ts";

export interface ShutdownOptions {
  readonly listener: Server;
  readonly acceptor: ConnectionAcceptor;
  readonly health: { beginDrain(): void; close(): void };
  readonly transports: readonly Transport[];
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
    const { health, acceptor: reception, transports } = this.#options;
    health.beginDrain();
    for (const transport of transports) transport.beginDrain();
    await this.#pause(accept_for, clock);
    if (this.#cut.signal.aborted) return this.#close();
    const closed = this.#close();
    health.close();
    reception.closePending();
    for (const transport of transports) transport.drain(grace);
    const forget = clock.alarm(grace, () => {
      log.warn({}, "cutting calls that did not end within the grace time");
      reception.destroyAll();
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

  #pause(ms: number, clock: Clock): Promise<void> {
    const { signal } = this.#cut;
    return new Promise((resolve) => {
      if (signal.aborted || ms <= 0) return resolve();
      const done = () => {
        forget();
        signal.removeEventListener("abort", done);
        resolve();
      };
      const forget = clock.alarm(ms, done);
      signal.addEventListener("abort", done);
    });
  }
}
