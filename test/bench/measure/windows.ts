// The longest wait in each tenth of a second, on a clock that all processes of the machine share.

const WINDOW_MS = 100;

/** Number of a window, and the longest wait in it, in ms. */
export type Window = readonly [number, number];

/** Monotonic time in ms; the same in every process of the machine. */
export function monotonic(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export class Windows {
  readonly #longest = new Map<number, number>();

  /** Notes a wait that began at `start`. It counts in every window up to its end. */
  note(start: number, ms: number): void {
    const last = Math.floor((start + ms) / WINDOW_MS);
    for (let window = Math.floor(start / WINDOW_MS); window <= last; window++) {
      if (ms > (this.#longest.get(window) ?? 0)) this.#longest.set(window, ms);
    }
  }

  at(window: number): number {
    return this.#longest.get(window) ?? 0;
  }

  all(): readonly Window[] {
    return [...this.#longest];
  }

  longest(): number {
    return Math.max(0, ...this.#longest.values());
  }
}
