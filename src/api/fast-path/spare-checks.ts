// Checks that are over and can be used again. One is enough while no check waits; checks that wait are many at one time.

/** Bytes of memory of a check, about, without the copy of its request. */
export const CHECK_SIZE = 3_072;

/** Most spare checks that are kept. Each of them has up to 4 kB for a copy of its request. */
const MAX_SPARE = 256;

interface ReusableCheck {
  readonly http: { releaseBytes(): void };
}

export class SpareChecks<Check extends ReusableCheck> {
  readonly #make: () => Check;
  readonly #spare: Check[] = [];

  constructor(make: () => Check) {
    this.#make = make;
  }

  /** One that nothing else uses. A check that throws is not put back. */
  take(): Check {
    return this.#spare.pop() ?? this.#make();
  }

  /** For a check whose reply has been written. */
  put(check: Check): void {
    check.http.releaseBytes();
    if (this.#spare.length < MAX_SPARE) this.#spare.push(check);
  }
}
