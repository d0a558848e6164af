// The keys of one limiter for which an agent holds tokens or has had flows recently. One bound applies to all limiters of
// an agent together, and unused keys are forgotten.

import type { LeaseHolder } from "./lease-holder.ts";

export interface FollowedKey {
  /** True if forgetting the key would lose tokens or a pending request. */
  holds(now: number): boolean;
  /** True if no flow has used the key for a while. */
  idle(now: number): boolean;
}

/** Keys examined to make room for another one. */
const MAX_EXAMINED = 4;

export class FollowedKeys<Key extends FollowedKey> {
  readonly #holder: LeaseHolder;
  readonly #keys = new Map<string | undefined, Key>();
  readonly #everyMs: number;
  readonly #sweep: (key: Key, now: number) => void;
  #stop: (() => void) | undefined;
  #closed = false;

  /** `sweep` is called for each key every `everyMs`. */
  constructor(holder: LeaseHolder, everyMs: number, sweep: (key: Key, now: number) => void) {
    this.#holder = holder;
    this.#everyMs = everyMs;
    this.#sweep = sweep;
  }

  get(value: string | undefined): Key | undefined {
    return this.#keys.get(value);
  }

  values(): Iterable<Key> {
    return this.#keys.values();
  }

  /** False when there is no room. */
  add(value: string | undefined, key: Key): boolean {
    const { counts, settings } = this.#holder;
    if (this.#closed) return false;
    if (counts.keys >= settings.max_keys && !this.#makeRoom()) return false;
    this.#keys.set(value, key);
    counts.keys += 1;
    if (this.#stop === undefined) this.#sweepLater();
    return true;
  }

  /** Forgets all keys, and follows none any more. */
  close(): void {
    this.#closed = true;
    this.#stop?.();
    this.#stop = undefined;
    this.#holder.counts.keys -= this.#keys.size;
    this.#keys.clear();
  }

  /** Examines some keys, the least recently examined first. */
  #makeRoom(): boolean {
    const now = this.#holder.clock.now();
    let left = MAX_EXAMINED;
    for (const [value, key] of this.#keys) {
      if (left-- <= 0) return false;
      this.#keys.delete(value);
      if (!key.holds(now)) {
        this.#holder.counts.keys -= 1;
        return true;
      }
      this.#keys.set(value, key);
    }
    return false;
  }

  #sweepLater(): void {
    this.#stop = this.#holder.clock.alarm(this.#everyMs, () => {
      this.#stop = undefined;
      const now = this.#holder.clock.now();
      for (const [value, key] of this.#keys) {
        this.#sweep(key, now);
        if (key.holds(now) || !key.idle(now)) continue;
        this.#keys.delete(value);
        this.#holder.counts.keys -= 1;
      }
      if (this.#keys.size > 0 && !this.#closed) this.#sweepLater();
    });
  }
}
