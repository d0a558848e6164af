// Decides when a condition that comes and goes is reported: once when it begins and once when it ends, at most every ten
// seconds. A change within that time is reported at its end, if it still holds then.

import type { Clock } from "#base/clock.ts";

/** Pause after each report of one condition, ms. */
export const QUIET_MS = 10_000;

export class ChangeNotifier {
  readonly #clock: Clock;
  #reported = false;
  /** On the monotonic clock. */
  #quietUntil: number;

  /** Reports nothing for the first `graceMs`, because many conditions hold briefly at a start. */
  constructor(clock: Clock, graceMs: number) {
    this.#clock = clock;
    this.#quietUntil = clock.now() + graceMs;
  }

  /** True if the beginning was reported, but not the end. */
  get isReported(): boolean {
    return this.#reported;
  }

  /** Call it regularly with the present state. Returns whether that state is to be reported now. */
  isDue(holds: boolean): boolean {
    const now = this.#clock.now();
    if (holds === this.#reported || now < this.#quietUntil) return false;
    this.#reported = holds;
    this.#quietUntil = now + QUIET_MS;
    return true;
  }
}

export class ComponentNotifier {
  readonly #clock: Clock;
  /** By component identity, for components whose condition has held or whose grace period differs. */
  #notifiers: Map<string, ChangeNotifier> | undefined;
  /** Identities of all components. */
  #members: readonly string[] = [];
  /** The components that existed before the last `retain`; undefined for none. */
  #older: ReadonlySet<string> | undefined;
  /** End of the grace period of the components that the last `retain` added, on the monotonic clock. */
  #newUntil = 0;
  /** Number of components whose condition was reported as begun but not as ended. */
  #open = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True if the end of a condition is still to be reported. */
  get hasOpen(): boolean {
    return this.#open > 0;
  }

  /** Keeps exactly these components. New ones have a grace period of ten seconds. */
  retain(identities: ReadonlySet<string>): void {
    for (const [identity, notifier] of this.#notifiers ?? []) {
      if (identities.has(identity)) continue;
      this.#notifiers?.delete(identity);
      if (notifier.isReported) this.#open -= 1;
    }
    const staying = this.#members.filter((identity) => identities.has(identity));
    // Remaining components keep the rest of their grace period.
    if (this.#clock.now() < this.#newUntil) for (const identity of staying) this.#of(identity);
    this.#older = staying.length === 0 ? undefined : new Set(staying);
    this.#members = [...identities];
    this.#newUntil = this.#clock.now() + QUIET_MS;
  }

  /** The components whose condition is to be reported now as begun or as ended. */
  changes<T>(all: readonly T[], identityOf: (each: T) => string, holds: (each: T) => boolean) {
    const begun: T[] = [];
    const ended: T[] = [];
    for (const each of all) {
      const identity = identityOf(each);
      const now = holds(each);
      const notifier = now ? this.#of(identity) : this.#notifiers?.get(identity);
      if (!notifier?.isDue(now)) continue;
      this.#open += now ? 1 : -1;
      (now ? begun : ended).push(each);
    }
    return { begun, ended };
  }

  /** The notifier of a component, created on first use. */
  #of(identity: string): ChangeNotifier {
    const known = this.#notifiers?.get(identity);
    if (known !== undefined) return known;
    const isNew = this.#older?.has(identity) !== true;
    const graceMs = isNew ? Math.max(0, this.#newUntil - this.#clock.now()) : 0;
    const notifier = new ChangeNotifier(this.#clock, graceMs);
    this.#notifiers ??= new Map();
    this.#notifiers.set(identity, notifier);
    return notifier;
  }
}
