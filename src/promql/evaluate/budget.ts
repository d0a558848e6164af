// Divides a limit among owners, so that no owner can starve the others: half of it in equal parts, of which each owner is
// sure, and half for owners that need more.

export class Budget<Owner> {
  readonly #limit: number;
  /** The share that each owner can always have. */
  #part: number;
  #common: number;
  #commonUsed = 0;
  #used = new Map<Owner, number>();

  constructor(limit: number) {
    this.#limit = limit;
    this.#part = 0;
    this.#common = limit;
  }

  /** Total of all owners. */
  get used(): number {
    let sum = 0;
    for (const used of this.#used.values()) sum += used;
    return sum;
  }

  /** Divides the limit among new owners, which use nothing yet. */
  divide(owners: number): void {
    this.#part = owners === 0 ? 0 : Math.floor(this.#limit / 2 / owners);
    this.#common = this.#limit - this.#part * owners;
    this.#commonUsed = 0;
    this.#used = new Map();
  }

  /** Records an amount that an owner has already, even beyond what it could get now. Negative amounts give back. */
  add(owner: Owner, amount: number): void {
    const before = this.#used.get(owner) ?? 0;
    const after = before + amount;
    this.#used.set(owner, after);
    this.#commonUsed += this.#beyondPart(after) - this.#beyondPart(before);
  }

  /** Takes an amount if there is room for it. */
  take(owner: Owner, amount: number): boolean {
    const used = this.#used.get(owner) ?? 0;
    const more = this.#beyondPart(used + amount) - this.#beyondPart(used);
    if (more > 0 && this.#commonUsed + more > this.#common) return false;
    this.add(owner, amount);
    return true;
  }

  #beyondPart(used: number): number {
    return Math.max(0, used - this.#part);
  }
}
