// Notes about a run, each text once with its count and the time of the first occurrence.

export interface Note {
  readonly text: string;
  readonly times: number;
  /** Time of the first occurrence, ms. */
  readonly first: number;
}

export class Notes {
  readonly #notes = new Map<string, Note>();

  add(text: string, at: number): void {
    const before = this.#notes.get(text);
    this.#notes.set(text, { text, times: (before?.times ?? 0) + 1, first: before?.first ?? at });
  }

  get all(): readonly Note[] {
    return [...this.#notes.values()];
  }
}
