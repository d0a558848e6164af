// Ring buffer of the last n readings. It grows as readings arrive, so that a window of a year costs little on its
// first day. Its readings are state of the component that it belongs to.

/** The readings of a window, as part of a component's state. */
export interface WindowState {
  readonly held: number[];
  /** Index of the oldest reading once the window is full. */
  start: number;
}

export function emptyWindow(): { readonly held: number[]; start: number } {
  return { held: [], start: 0 };
}

export class Window {
  readonly #size: number;
  readonly #state: WindowState;

  constructor(size: number, state: WindowState) {
    this.#size = size;
    this.#state = state;
  }

  get length(): number {
    return this.#state.held.length;
  }

  push(reading: number): void {
    const { held, start } = this.#state;
    if (held.length < this.#size) {
      held.push(reading);
    } else {
      held[start] = reading;
      this.#state.start = (start + 1) % this.#size;
    }
  }

  /** The reading at an index; 0 is the oldest. */
  at(index: number): number {
    const { held, start } = this.#state;
    return held[(start + index) % held.length] ?? Number.NaN;
  }

  mean(): number {
    let sum = 0;
    for (let at = 0; at < this.length; at++) sum += this.at(at);
    return sum / this.length;
  }

  clear(): void {
    this.#state.held.length = 0;
    this.#state.start = 0;
  }
}
