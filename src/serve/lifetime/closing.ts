// How the port ends: in order and in time, or at once. Each step happens once, whoever asks and how often.

import type { Server } from "node:net";
import type { Clock } from "#base/clock.ts";
import type { Reception } from "../listen/reception.ts";
import type { DrainSettings, PortLog } from "../settings.ts";
import type { Health } from "../standard/health.ts";
import type { Transport } from "./transport.ts";

export interface Parts {
  readonly listener: Server;
  readonly reception: Reception;
  readonly health: Health;
  readonly transports: readonly Transport[];
  /** Lets go of what is no connection. */
  readonly release: () => void;
}

export class Closing {
  readonly #parts: Parts;
  readonly #cut = new AbortController();
  #draining: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  drain(settings: DrainSettings, clock: Clock, log: PortLog): Promise<void> {
    this.#draining ??= this.#inOrder(settings, clock, log);
    return this.#draining;
  }

  async cut(): Promise<void> {
    this.#cut.abort();
    const closed = this.#close();
    this.#parts.health.close();
    this.#parts.reception.destroyAll();
    await closed;
  }

  async #inOrder({ accept_for, grace }: DrainSettings, clock: Clock, log: PortLog): Promise<void> {
    const { health, reception, transports } = this.#parts;
    health.leave();
    for (const transport of transports) transport.leave();
    await this.#pause(accept_for, clock);
    if (this.#cut.signal.aborted) return this.#close();
    const closed = this.#close();
    health.close();
    reception.turnAway();
    for (const transport of transports) transport.drain(grace);
    const forget = clock.alarm(grace, () => {
      log.warn("cutting calls that did not end within the grace time");
      reception.destroyAll();
    });
    await closed;
    forget();
  }

  /** Stops listening; resolves when the last connection has ended and nothing is held any more. */
  #close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#parts.listener.close(() => {
        this.#parts.release();
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
