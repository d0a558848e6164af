// Deduplicates plain data: equal parts become one object, because similar compiled policies consist mostly of equal parts. The
// data must not be changed afterwards.

export class Deduplicator {
  readonly #known = new Map<string, object>();
  /** Numbers of the objects in `#known`. They represent the objects in the keys of their containers. */
  readonly #numbers = new Map<object, number>();

  /** Returns equal data in which equal objects and arrays are identical. Maps and other objects stay as they are. */
  deduplicate<T>(value: T): T {
    if (typeof value !== "object" || value === null || !isPlain(value)) return value;
    if (this.#numbers.has(value)) return value;
    const isList = Array.isArray(value);
    const entries = Object.entries(value).map(
      ([key, inner]) => [key, this.deduplicate(inner)] as const,
    );
    const parts = entries.map(([key, inner]) => `${JSON.stringify(key)}:${this.#keyOf(inner)}`);
    const key = `${isList ? "list" : "object"} ${parts.join()}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known as T;
    const shared = isList ? entries.map(([, inner]) => inner) : Object.fromEntries(entries);
    this.#numbers.set(shared, this.#numbers.size);
    this.#known.set(key, shared);
    return shared as T;
  }

  #keyOf(value: unknown): string {
    if (typeof value === "string") return JSON.stringify(value);
    if (Object.is(value, -0)) return "-0";
    if (typeof value !== "object" || value === null) return `${typeof value} ${String(value)}`;
    const number = this.#numbers.get(value) ?? this.#numbers.size;
    this.#numbers.set(value, number);
    return `#${number}`;
  }
}

function isPlain(value: object): boolean {
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

/** Deduplicates the strings of plain data in place. `pool` holds the known strings. */
export function deduplicateStrings(value: unknown, pool: Map<string, string>): void {
  const seen = new Set<object>();
  const visit = (each: unknown): void => {
    if (typeof each !== "object" || each === null || !isPlain(each) || seen.has(each)) return;
    seen.add(each);
    const members = each as Record<string, unknown>;
    for (const [key, inner] of Object.entries(each)) {
      if (typeof inner !== "string") visit(inner);
      else {
        const known = pool.get(inner);
        if (known === undefined) pool.set(inner, inner);
        else members[key] = known;
      }
    }
  };
  visit(value);
}
