// The keys of one limiter that its agent follows, because it holds tokens of theirs or was asked about them just now.
// Bounded for all limiters of an agent together; keys that nobody asks about are forgotten.

import type { LeaseAgent } from "./lease-agent.ts";

export interface FollowedKey {
  /** Whether something would be lost if it were forgotten. */
  holds(now: number): boolean;
  /** Whether nobody has asked about it for a while. */
  idle(now: number): boolean;
}

/** Keys examined when there is no room for another one. */
const LOOKS = 4;

export class FollowedKeys<Key extends FollowedKey> {
  readonly #agent: LeaseAgent;
  readonly #keys = new Map<string | undefined, Key>();
  readonly #everyMs: number;
  readonly #tidy: (key: Key, now: number) => void;
  #stop: (() => void) | undefined;
  #closed = false;

  /** `tidy` is called for each key every `everyMs`. */
  constructor(agent: LeaseAgent, everyMs: number, tidy: (key: Key, now: number) => void) {
    this.#agent = agent;
    this.#everyMs = everyMs;
    this.#tidy = tidy;
  }

  get(value: string | undefined): Key | undefined {
    return this.#keys.get(value);
  }

  values(): Iterable<Key> {
    return this.#keys.values();
  }

  /** False when there is no room. */
  add(value: string | undefined, key: Key): boolean {
    const { counts, settings } = this.#agent;
    if (this.#closed) return false;
    if (counts.keys >= settings.max_keys && !this.#makeRoom()) return false;
    this.#keys.set(value, key);
    counts.keys += 1;
    if (this.#stop === undefined) this.#tidyLater();
    return true;
  }

  /** Forgets all keys, and follows none any more. */
  close(): void {
    this.#closed = true;
    this.#stop?.();
    this.#stop = undefined;
    this.#agent.counts.keys -= this.#keys.size;
    this.#keys.clear();
  }

  /** Looks at the keys that were looked at the longest time ago. */
  #makeRoom(): boolean {
    const now = this.#agent.clock.now();
    let looks = LOOKS;
    for (const [value, key] of this.#keys) {
      if (looks-- <= 0) return false;
      this.#keys.delete(value);
      if (!key.holds(now)) {
        this.#agent.counts.keys -= 1;
        return true;
      }
      this.#keys.set(value, key);
    }
    return false;
  }

  #tidyLater(): void {
    this.#stop = this.#agent.clock.alarm(this.#everyMs, () => {
      this.#stop = undefined;
      const now = this.#agent.clock.now();
      for (const [value, key] of this.#keys) {
        this.#tidy(key, now);
        if (key.holds(now) || !key.idle(now)) continue;
        this.#keys.delete(value);
        this.#agent.counts.keys -= 1;
      }
      if (this.#keys.size > 0 && !this.#closed) this.#tidyLater();
    });
  }
}
