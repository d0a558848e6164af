// The bucket of a load scheduler: it fills by a share of the rate at which tokens have arrived. The rate is the mean of
// thirty whole seconds, so nothing is limited before these have been measured.

/** Slots of the measurement, and the length of one, ms. */
const SLOTS = 30;
const SLOT_MS = 1_000;

/** Tokens this close count as enough: sums of fractions are not exact. */
const SLACK = 1e-9;

export class LoadBucket {
  readonly #slots = new Float64Array(SLOTS);
  readonly #created: number;
  /** Tokens of the current slot, which is not over. */
  #current = 0;
  /** Number of that slot. */
  #slot = 0;
  /** Number of the first slot in which the rate is known. */
  #measuredFrom = SLOTS + 1;
  #measuring = true;
  #multiplier = 0;
  #available = 0;
  #filledAt = 0;
  /** Tokens for which the flow at the head waits. The bucket may fill up to this number. */
  #wanted = 0;
  /** Tokens per second; also the capacity. */
  fillRate = 0;

  constructor(now: number) {
    this.#created = now;
  }

  /** Nothing is limited yet. */
  get measuring(): boolean {
    return this.#measuring;
  }

  get multiplier(): number {
    return this.#multiplier;
  }

  /** Tokens as of the last use. */
  get available(): number {
    return this.#available;
  }

  /** Tokens per second that arrived in the last thirty whole seconds. */
  get rate(): number {
    let sum = 0;
    for (const tokens of this.#slots) sum += tokens;
    return (sum * 1_000) / (SLOTS * SLOT_MS);
  }

  arrived(tokens: number, now: number): void {
    this.#advance(now);
    this.#current += tokens;
  }

  /** Sets the share of the rate. Only arriving flows advance the measurement. */
  limit(multiplier: number, now: number): void {
    this.#fill(now);
    this.#multiplier = multiplier;
    if (!this.#measuring) this.fillRate = this.rate * multiplier;
  }

  /**
   * Takes tokens and returns 0 if there are enough; otherwise returns the milliseconds until there are, Infinity for never.
   * A flow that waits gets even more tokens than the bucket holds.
   */
  take(tokens: number, now: number, waits: boolean): number {
    this.#wanted = waits ? tokens : 0;
    this.#fill(now);
    const missing = tokens - this.#available;
    if (missing <= SLACK) {
      this.#available -= tokens;
      this.#wanted = 0;
      return 0;
    }
    if (this.fillRate <= 0) return Number.POSITIVE_INFINITY;
    this.#wanted = tokens;
    return (missing / this.fillRate) * 1_000;
  }

  giveBack(tokens: number): void {
    this.#available = Math.min(this.fillRate, this.#available + tokens);
  }

  #fill(now: number): void {
    const capacity = Math.max(this.fillRate, this.#wanted);
    const gained = (Math.max(0, now - this.#filledAt) * this.fillRate) / 1_000;
    this.#available = Math.min(capacity, this.#available + gained);
    this.#filledAt = now;
  }

  #advance(now: number): void {
    const slot = Math.floor((now - this.#created) / SLOT_MS);
    const over = slot - this.#slot;
    if (over <= 0) return;
    if (over > SLOTS) {
      // Nothing has arrived for longer than the measurement, so it begins again.
      this.#measuredFrom = slot + SLOTS + 1;
      this.#measuring = true;
    } else {
      for (let at = 0; at < over; at++) {
        this.#slots[(this.#slot + at) % SLOTS] = at === 0 ? this.#current : 0;
      }
    }
    this.#current = 0;
    this.#slot = slot;
    if (!this.#measuring || slot < this.#measuredFrom) return;
    this.#measuring = false;
    this.fillRate = this.rate * this.#multiplier;
    this.#available = this.fillRate;
    this.#filledAt = now;
  }
}
