// Reports a repeated event when it begins and when it has stopped, so that a flood of events becomes two log lines.

import type { Clock } from "../clock.ts";

interface EpisodesOptions {
  readonly clock: Clock;
  /** An episode ends after this time without an event. */
  readonly quietMs: number;
  began(name: string): void;
  /** `times` is the number of times that it happened. */
  ended(name: string, times: number): void;
}

interface Episode {
  times: number;
  /** On `Clock.now()`. */
  last: number;
}

export class Episodes {
  readonly #options: EpisodesOptions;
  readonly #open = new Map<string, Episode>();
  #disarm: (() => void) | undefined;
  #closed = false;

  constructor(options: EpisodesOptions) {
    this.#options = options;
  }

  /** Names of the episodes in progress. */
  get open(): Iterable<string> {
    return this.#open.keys();
  }

  /** Does nothing after `close`. */
  happened(name: string): void {
    if (this.#closed) return;
    const { clock, quietMs, began } = this.#options;
    const episode = this.#open.get(name);
    if (episode !== undefined) {
      episode.times++;
      episode.last = clock.now();
      return;
    }
    this.#open.set(name, { times: 1, last: clock.now() });
    this.#disarm ??= clock.alarm(quietMs, () => this.#look());
    began(name);
  }

  close(): void {
    this.#closed = true;
    this.#disarm?.();
    this.#disarm = undefined;
  }

  #look(): void {
    const { clock, quietMs, ended } = this.#options;
    const now = clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [name, { times, last }] of this.#open) {
      const over = last + quietMs;
      if (over > now) {
        next = Math.min(next, over);
        continue;
      }
      this.#open.delete(name);
      ended(name, times);
    }
    this.#disarm =
      next < Number.POSITIVE_INFINITY ? clock.alarm(next - now, () => this.#look()) : undefined;
  }
}
