// The bucket of a load scheduler: a share of the rate at which tokens arrived of late. The rate is the mean of thirty whole
// seconds, so nothing is limited before these have been measured.

/** Slots of the measurement, and the length of one, ms. */
const SLOTS = 30;
const SLOT_MS = 1_000;

/** Tokens this close count as enough: sums of fractions are not exact. */
const SLACK = 1e-9;

export class LoadBucket {
  readonly #slots = new Float64Array(SLOTS);
  readonly #created: number;
  /** Tokens of the slot that is not over. */
  #current = 0;
  /** Number of that slot. */
  #slot = 0;
  /** Number of the first slot with a rate: those before are needed to measure it. */
  #measuredFrom = SLOTS + 1;
  #measuring = true;
  #multiplier = 0;
  #available = 0;
  #filledAt = 0;
  /** Tokens for which the flow waits whose turn it is: the bucket may hold as many. */
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

  /** A new share of the rate. Only flows move the measurement on: without any, it does not end. */
  limit(multiplier: number, now: number): void {
    this.#fill(now);
    this.#multiplier = multiplier;
    if (!this.#measuring) this.fillRate = this.rate * multiplier;
  }

  /**
   * Takes tokens if there are enough; otherwise returns in how many milliseconds there will be: Infinity for never. A
   * flow that waits gets them even if they are more than the bucket holds.
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
    const most = Math.max(this.fillRate, this.#wanted);
    const gained = (Math.max(0, now - this.#filledAt) * this.fillRate) / 1_000;
    this.#available = Math.min(most, this.#available + gained);
    this.#filledAt = now;
  }

  #advance(now: number): void {
    const slot = Math.floor((now - this.#created) / SLOT_MS);
    const over = slot - this.#slot;
    if (over <= 0) return;
    if (over > SLOTS) {
      // Nothing arrived for so long that what is known of the rate is out of date. All slots are written again before it counts.
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
