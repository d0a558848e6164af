// Keeps members for a while after their records have gone from the store, unless they are known to have ended. An outage of
// etcd ends the leases of records although their agents still count. The agents write their records again once etcd
// answers. If others took over their keys in between, two agents would count one key.

import type { Clock } from "#base/clock.ts";
import type { RingMember } from "./ring.ts";

/** Milliseconds for which a silent member stays. Longer than the pause of an agent before it retries etcd. */
const SILENT_MS = 5_000;
/** Milliseconds for which a member stays that answers probes but does not write its record again. */
const HEARD_MS = 30_000;
/** Milliseconds between two checks of whether it still answers. */
const CHECK_MS = 1_000;

interface LingeringOptions {
  readonly clock: Clock;
  /** True if the member has left the group, or its process seems to have ended. */
  readonly hasEnded: (id: string) => boolean;
  /** True if the member answered the last probe. */
  readonly answers: (id: string) => boolean;
  /** Called when a member may have stayed long enough. */
  readonly changed: () => void;
}

export class Lingering {
  readonly #options: LingeringOptions;
  #last: readonly RingMember[] = [];
  /** When the record of each lingering member disappeared, on `Clock.now()`, by id. */
  readonly #gone = new Map<string, number>();
  #disarm: (() => void) | undefined;

  constructor(options: LingeringOptions) {
    this.#options = options;
  }

  /** Returns the members of the store and the lingering ones. */
  withLingering(stored: readonly RingMember[]): readonly RingMember[] {
    const { clock, hasEnded, answers, changed } = this.#options;
    const now = clock.now();
    const ids = new Set(stored.map(({ id }) => id));
    const names = new Set(stored.map(({ name }) => name));
    const before = new Map(this.#gone);
    this.#gone.clear();
    let checkAt = Number.POSITIVE_INFINITY;
    const stay = this.#last.filter(({ id, name }) => {
      // A process with the same name is its successor.
      if (ids.has(id) || names.has(name) || hasEnded(id)) return false;
      const gone = before.get(id) ?? now;
      const silent = now >= gone + SILENT_MS;
      if (now >= gone + HEARD_MS || (silent && !answers(id))) return false;
      this.#gone.set(id, gone);
      checkAt = Math.min(checkAt, silent ? now + CHECK_MS : gone + SILENT_MS);
      return true;
    });
    this.#disarm?.();
    this.#disarm = stay.length === 0 ? undefined : clock.alarm(checkAt - now, changed);
    this.#last = [...stored, ...stay];
    return this.#last;
  }

  /** Forgets all members. */
  clear(): void {
    this.#last = [];
    this.#gone.clear();
    this.#disarm?.();
    this.#disarm = undefined;
  }
}
