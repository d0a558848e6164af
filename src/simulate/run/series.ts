// Numbers over the time of a run, by name: signals at every tick, and what the model of a service shows.

/** One line: its readings at ascending times, ms. NaN is an invalid reading. */
export interface Line {
  readonly name: string;
  readonly times: readonly number[];
  readonly values: readonly number[];
}

export class Series {
  readonly #lines = new Map<string, { name: string; times: number[]; values: number[] }>();

  /** A name that is not there yet begins a line. */
  add(name: string, at: number, value: number): void {
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = { name, times: [], values: [] };
      this.#lines.set(name, line);
    }
    line.times.push(at);
    line.values.push(value);
  }

  line(name: string): Line | undefined {
    return this.#lines.get(name);
  }
}

/** Readings within a stretch of time; `until` is not part of it. */
export function within({ times, values }: Line, from: number, until: number): readonly number[] {
  return values.filter((_, at) => {
    const time = times[at] ?? Number.NaN;
    return time >= from && time < until;
  });
}

/**
 * How often a line turns round: a turn counts once the line has moved by more than `amplitude` away from
 * where it turned. Invalid readings are passed over.
 */
export function reversals(values: readonly number[], amplitude: number): number {
  let turns = 0;
  let direction: "up" | "down" | undefined;
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
    if (direction !== "up" && value - low > amplitude) {
      if (direction === "down") turns++;
      direction = "up";
      high = value;
    } else if (direction !== "down" && high - value > amplitude) {
      if (direction === "up") turns++;
      direction = "down";
      low = value;
    }
  }
  return turns;
}
