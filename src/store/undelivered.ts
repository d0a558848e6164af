// The changes that a watch has yet to deliver: the net difference between the state that its reader got last and the present
// one. Memory is bounded by the entries of both states, not by the number of changes between them.

import type { Entry, StoreUpdate } from "./store.ts";

export class Undelivered {
  /** Revision of each key that the reader has. */
  readonly #delivered = new Map<string, number>();
  #changed = new Map<string, Entry | undefined>();
  #revision = 0;
  /** The first state is delivered even if it is empty, and so is one that does not follow from the one before. */
  #mustDeliver = false;
  #reset = false;

  /** The revision up to which all changes are noted; 0 before the first state. */
  get revision(): number {
    return this.#revision;
  }

  /** All keys that exist as far as is known. */
  keys(): Set<string> {
    const keys = new Set(this.#delivered.keys());
    for (const [key, entry] of this.#changed) {
      if (entry === undefined) keys.delete(key);
      else keys.add(key);
    }
    return keys;
  }

  /** True if an entry differs from the one that the reader has or is about to get. */
  differs({ key, revision }: Entry): boolean {
    return this.#changed.has(key)
      ? this.#changed.get(key)?.revision !== revision
      : this.#delivered.get(key) !== revision;
  }

  put(entry: Entry): void {
    if (this.#delivered.get(entry.key) === entry.revision) this.#changed.delete(entry.key);
    else this.#changed.set(entry.key, entry);
  }

  delete(key: string): void {
    // A key that the reader never saw needs no delete.
    if (this.#delivered.has(key)) this.#changed.set(key, undefined);
    else this.#changed.delete(key);
  }

  /** The newest entry that is known; undefined when there is none. */
  newest(): Pick<Entry, "key" | "revision"> | undefined {
    let newest: Pick<Entry, "key" | "revision"> | undefined;
    const consider = (key: string, revision: number): void => {
      if (revision > (newest?.revision ?? 0)) newest = { key, revision };
    };
    for (const [key, revision] of this.#delivered) {
      if (!this.#changed.has(key)) consider(key, revision);
    }
    for (const [key, entry] of this.#changed) {
      if (entry !== undefined) consider(key, entry.revision);
    }
    return newest;
  }

  /**
   * The next state does not follow from this one. Revisions no longer tell values apart: every entry counts as changed
   * when it is listed.
   */
  reset(): void {
    for (const key of this.#delivered.keys()) this.#delivered.set(key, -1);
    for (const key of this.#changed.keys())
      if (!this.#delivered.has(key)) this.#changed.delete(key);
    this.#reset = true;
    this.#mustDeliver = true;
  }

  reached(revision: number, how: "listed" | "changed"): void {
    if (how === "listed" && this.#revision === 0) this.#mustDeliver = true;
    this.#revision = revision;
  }

  /** The difference in key order; undefined when there is none. */
  take(): StoreUpdate | undefined {
    if (this.#changed.size === 0 && !this.#mustDeliver) return undefined;
    const reset = this.#reset;
    this.#mustDeliver = false;
    this.#reset = false;
    const changed = this.#changed;
    this.#changed = new Map();
    const puts: Entry[] = [];
    const deletes: string[] = [];
    for (const key of [...changed.keys()].sort()) {
      const entry = changed.get(key);
      if (entry === undefined) {
        deletes.push(key);
        this.#delivered.delete(key);
      } else {
        puts.push(entry);
        this.#delivered.set(key, entry.revision);
      }
    }
    const batch = { revision: this.#revision, puts, deletes };
    return reset ? { ...batch, reset } : batch;
  }
}
