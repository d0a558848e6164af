// Ring buffer of the last n readings. It grows as readings arrive, so that a window of a year costs little on its
// first day.

export class Window {
  readonly #size: number;
  readonly #held: number[] = [];
  /** Index of the oldest reading once the window is full. */
  #start = 0;

  constructor(size: number) {
    this.#size = size;
  }

  get length(): number {
    return this.#held.length;
  }

  push(reading: number): void {
    if (this.#held.length < this.#size) {
      this.#held.push(reading);
    } else {
      this.#held[this.#start] = reading;
      this.#start = (this.#start + 1) % this.#size;
    }
  }

  /** The reading at an index; 0 is the oldest. */
  at(index: number): number {
    return this.#held[(this.#start + index) % this.#held.length] ?? Number.NaN;
  }

  mean(): number {
    let sum = 0;
    for (let at = 0; at < this.#held.length; at++) sum += this.at(at);
    return sum / this.#held.length;
  }

  clear(): void {
    this.#held.length = 0;
    this.#start = 0;
  }
}
