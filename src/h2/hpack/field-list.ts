// The decoded fields of one field block. The list is bounded, since a small block can refer to large table entries
// thousands of times.

/** Size of a field in addition to its characters (RFC 9113 §6.5.2). */
const FIELD_OVERHEAD = 32;

/**
 * Beyond a limit the list stores nothing but still counts: decoding goes on, as the dynamic table must follow the
 * peer's.
 */
export class FieldList {
  readonly #maxSize: number;
  readonly #maxFields: number;
  readonly #fields: string[] = [];
  #size = 0;
  #overflow = false;

  constructor(maxSize: number, maxFields: number) {
    this.#maxSize = maxSize;
    this.#maxFields = maxFields;
  }

  /** Names and values, alternating. */
  get fields(): readonly string[] {
    return this.#fields;
  }

  /** Size of all fields by RFC 9113 §6.5.2, whether stored or not. */
  get size(): number {
    return this.#size;
  }

  /** A limit was exceeded: `fields` is incomplete. */
  get overflow(): boolean {
    return this.#overflow;
  }

  add(name: string, value: string): void {
    this.#size += name.length + value.length + FIELD_OVERHEAD;
    if (this.#size > this.#maxSize || this.#fields.length >= 2 * this.#maxFields) {
      this.#overflow = true;
    }
    if (!this.#overflow) this.#fields.push(name, value);
  }
}
