// Members whose records have gone from the store. The record of an agent goes with its lease, also when etcd was away and
// the agent counts on: it writes the record again as soon as etcd answers. If others took over its keys in between, two
// agents would count one key. So a member stays for a while after its record has gone, unless it is known to have ended.

import type { Clock } from "#base/clock.ts";
import type { RingMember } from "./ring.ts";

/** Longer than an agent pauses before it asks etcd again. */
const LINGER_MS = 5_000;

export interface LingeringOptions {
  readonly clock: Clock;
  /** Whether the process has said that it counts nothing any more, or looks as if it had ended. */
  readonly hasEnded: (id: string) => boolean;
  /** Called when a member has stayed long enough. */
  readonly changed: () => void;
}

export class Lingering {
  readonly #options: LingeringOptions;
  #last: readonly RingMember[] = [];
  /** When members go whose records have gone, by id, on the clock. */
  readonly #until = new Map<string, number>();
  #disarm: (() => void) | undefined;

  constructor(options: LingeringOptions) {
    this.#options = options;
  }

  /** Returns the members of the store, and those who stay although their records have gone. */
  after(stored: readonly RingMember[]): readonly RingMember[] {
    const { clock, hasEnded } = this.#options;
    const now = clock.now();
    const ids = new Set(stored.map(({ id }) => id));
    const names = new Set(stored.map(({ name }) => name));
    for (const id of ids) this.#until.delete(id);
    const stay = this.#last.filter(({ id, name }) => {
      if (ids.has(id)) return false;
      const until = this.#until.get(id) ?? now + LINGER_MS;
      // A process that was started under its name is its successor.
      const stays = until > now && !names.has(name) && !hasEnded(id);
      if (stays) this.#until.set(id, until);
      else this.#until.delete(id);
      return stays;
    });
    this.#disarm?.();
    this.#disarm = undefined;
    const next = Math.min(...this.#until.values());
    if (stay.length > 0) this.#disarm = clock.alarm(next - now, this.#options.changed);
    this.#last = [...stored, ...stay];
    return this.#last;
  }

  /** Forgets everybody. */
  clear(): void {
    this.#last = [];
    this.#until.clear();
    this.#disarm?.();
    this.#disarm = undefined;
  }
}
