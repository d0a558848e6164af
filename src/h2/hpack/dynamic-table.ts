// The dynamic table of a decoder (RFC 7541 §2.3.2 and §4): newest entry first, oldest evicted first.

/** Size of an entry in addition to its characters (§4.1). */
export const ENTRY_OVERHEAD = 32;

/** Evicted entries that may accumulate before the arrays are compacted. */
const SLACK = 64;

export class DynamicTable {
  /** Oldest first; entries before `#oldest` have been evicted. */
  #names: string[] = [];
  #values: string[] = [];
  #oldest = 0;
  #size = 0;
  #limit: number;
  #generation = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Changes whenever the table does. */
  get generation(): number {
    return this.#generation;
  }

  get size(): number {
    return this.#size;
  }

  get count(): number {
    return this.#names.length - this.#oldest;
  }

  /** `back`: 0 for the newest entry; must be less than `count`. */
  name(back: number): string {
    return this.#names[this.#names.length - 1 - back] ?? "";
  }

  value(back: number): string {
    return this.#values[this.#values.length - 1 - back] ?? "";
  }

  resize(limit: number): void {
    this.#generation++;
    this.#limit = limit;
    this.#evictTo(limit);
  }

  /** An entry larger than the table empties it and is not inserted (§4.4). */
  insert(name: string, value: string): void {
    this.#generation++;
    const size = name.length + value.length + ENTRY_OVERHEAD;
    this.#evictTo(Math.max(0, this.#limit - size));
    if (size > this.#limit) return;
    this.#names.push(name);
    this.#values.push(value);
    this.#size += size;
  }

  #evictTo(size: number): void {
    while (this.#size > size) {
      const at = this.#oldest++;
      const name = this.#names[at] ?? "";
      const value = this.#values[at] ?? "";
      this.#size -= name.length + value.length + ENTRY_OVERHEAD;
      this.#names[at] = "";
      this.#values[at] = "";
    }
    if (this.#oldest >= SLACK || (this.#size === 0 && this.#oldest > 0)) {
      this.#names = this.#names.slice(this.#oldest);
      this.#values = this.#values.slice(this.#oldest);
      this.#oldest = 0;
    }
  }
}
