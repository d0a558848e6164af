// What was told of the troubles of a policy's components: each once when it begins and once when it is over.

import type { Clock } from "#base/clock.ts";
import { QUIET_MS, Told } from "./told.ts";

export class Troubles {
  readonly #clock: Clock;
  /** By component. */
  readonly #told = new Map<string, Told>();
  /** Components whose trouble was told, and not yet its end. */
  readonly #open = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Is there one of which the end was not told? */
  get some(): boolean {
    return this.#open.size > 0;
  }

  /** Forgets components that are not among these. New ones have their time to come up. */
  keep(ids: ReadonlySet<string>): void {
    for (const id of this.#told.keys()) {
      if (ids.has(id)) continue;
      this.#told.delete(id);
      this.#open.delete(id);
    }
    for (const id of ids) {
      if (!this.#told.has(id)) this.#told.set(id, new Told(this.#clock, QUIET_MS));
    }
  }

  /** What is to be told now. */
  news<T>(all: readonly T[], idOf: (each: T) => string, isIn: (each: T) => boolean) {
    const begun: T[] = [];
    const over: T[] = [];
    for (const each of all) {
      const id = idOf(each);
      const holds = isIn(each);
      if (!this.#told.get(id)?.isNews(holds)) continue;
      if (holds) this.#open.add(id);
      else this.#open.delete(id);
      (holds ? begun : over).push(each);
    }
    return { begun, over };
  }
}
