// A bounded number of places for several owners. An owner may take one more while it has fewer than are free: so one alone
// gets half of them, two get a third each, and whoever comes later still finds some ("dynamic thresholds", Choudhury and
// Hahne, 1998).

export class SharedPlaces {
  /** By owner; those that have none are left out. */
  readonly #taken = new Map<string, number>();
  #free: number;
  #count = 0;

  constructor(most: number) {
    this.#free = most;
  }

  /** Places that are taken. */
  get count(): number {
    return this.#count;
  }

  /** Whether the owner may take one more. */
  hasRoomFor(owner: string): boolean {
    return (this.#taken.get(owner) ?? 0) < this.#free;
  }

  take(owner: string): void {
    this.#taken.set(owner, (this.#taken.get(owner) ?? 0) + 1);
    this.#count++;
    this.#free--;
  }

  /** Gives back a place that this owner has taken. */
  giveBack(owner: string): void {
    const left = (this.#taken.get(owner) ?? 0) - 1;
    if (left > 0) this.#taken.set(owner, left);
    else this.#taken.delete(owner);
    this.#count--;
    this.#free++;
  }
}
