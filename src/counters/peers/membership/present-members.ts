// The members of a group that own keys: those with a record in the store, except those that are known to have left or
// ended.

import type { Log } from "#base/log.ts";
import type { RingMember } from "./ring.ts";

/** The member said that it leaves, or its process seems to have ended. */
type Exclusion = "left" | "gone";

export class PresentMembers {
  readonly #log: Log;
  readonly #changed: () => void;
  /** Those with a record in the store. */
  #all: readonly RingMember[] = [];
  /** By process id. */
  readonly #excluded = new Map<string, Exclusion>();

  /** `changed` is called when the list may have changed. */
  constructor(log: Log, changed: () => void) {
    this.#log = log;
    this.#changed = changed;
  }

  get list(): readonly RingMember[] {
    return this.#all.filter(({ id }) => !this.#excluded.has(id));
  }

  /** By name. */
  get excluded(): readonly { readonly name: string; readonly why: Exclusion }[] {
    return this.#all.flatMap(({ id, name }) => {
      const why = this.#excluded.get(id);
      return why === undefined ? [] : [{ name, why }];
    });
  }

  /** Sets the members that have a record in the store. */
  set(all: readonly RingMember[]): void {
    this.#all = all;
    const ids = new Set(all.map(({ id }) => id));
    for (const id of [...this.#excluded.keys()]) if (!ids.has(id)) this.#excluded.delete(id);
    this.#changed();
  }

  /** True if a member has left, or its process seems to have ended. */
  hasEnded(id: string): boolean {
    return this.#excluded.has(id);
  }

  /** Others own the keys of this member from now on. */
  exclude(id: string, why: Exclusion): void {
    const member = this.#all.find((each) => each.id === id);
    const before = this.#excluded.get(id);
    if (member !== undefined && before !== "left" && before !== why) {
      this.#excluded.set(id, why);
      const { name } = member;
      const others = "others count its keys";
      if (why === "left") this.#log.info({ peer: name }, `peer ${name} has left, ${others}`);
      else this.#log.warn({ peer: name }, `peer ${name} looks as if it had ended, ${others}`);
    }
    this.#changed();
  }

  /** A member that seemed to be gone answers. Members that have left answer probes, too, until their process ends. */
  include(id: string): void {
    if (this.#excluded.get(id) === "gone") {
      this.#excluded.delete(id);
      const name = this.#all.find((each) => each.id === id)?.name ?? id;
      this.#log.info({ peer: name }, `peer ${name} is there after all, it counts its keys again`);
    }
    this.#changed();
  }
}
