// The fields of one header block as they are decoded: bounded, so that a small block that refers to large table
// entries thousands of times costs no memory.

/** What a field counts besides its characters (RFC 9113 §6.5.2). */
const FIELD_OVERHEAD = 32;

/**
 * Beyond its bounds a list keeps nothing further, but counts: decoding goes on, as the dynamic table has to follow
 * the peer's.
 */
export class FieldList {
  readonly #maxSize: number;
  readonly #maxFields: number;
  readonly #flat: string[] = [];
  #size = 0;
  #overflow = false;

  constructor(maxSize: number, maxFields: number) {
    this.#maxSize = maxSize;
    this.#maxFields = maxFields;
  }

  /** Names and values in turn. */
  get flat(): readonly string[] {
    return this.#flat;
  }

  /** Of all fields, kept or not, by RFC 9113 §6.5.2. */
  get size(): number {
    return this.#size;
  }

  /** More came than is taken: `flat` is not complete. */
  get overflow(): boolean {
    return this.#overflow;
  }

  add(name: string, value: string): void {
    this.#size += name.length + value.length + FIELD_OVERHEAD;
    if (this.#size > this.#maxSize || this.#flat.length >= 2 * this.#maxFields) {
      this.#overflow = true;
    }
    if (!this.#overflow) this.#flat.push(name, value);
  }
}
