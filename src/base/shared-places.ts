// A limit that several owners share. An owner may take one more slot while it holds fewer than are free: a single owner
// gets half of them, two get a third each, and a later owner still finds some ("dynamic thresholds", Choudhury and
// Hahne, 1998).

export class SharedPlaces {
  /** By owner; owners without slots have no entry. */
  readonly #taken = new Map<string, number>();
  #free: number;
  #count = 0;

  constructor(limit: number) {
    this.#free = limit;
  }

  /** Slots taken. */
  get count(): number {
    return this.#count;
  }

  /** Owners that hold slots. */
  get owners(): number {
    return this.#taken.size;
  }

  /** True if the owner may take one more. */
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
