// What a person should know about a run, each thing once: how often it happened, and when first.

export interface Note {
  readonly text: string;
  readonly times: number;
  /** Milliseconds. */
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
