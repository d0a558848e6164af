// Time series of a run by name: signals at every tick, and series of the service models.

/** One series: readings at ascending times, ms. NaN is an invalid reading. */
export interface TimeSeries {
  readonly name: string;
  readonly times: readonly number[];
  readonly values: readonly number[];
}

/** All series of a run, by name. */
export class RunSeries {
  readonly #series = new Map<string, { name: string; times: number[]; values: number[] }>();

  /** Adds a reading; an unknown name starts a new series. */
  add(name: string, at: number, value: number): void {
    let series = this.#series.get(name);
    if (series === undefined) {
      series = { name, times: [], values: [] };
      this.#series.set(name, series);
    }
    series.times.push(at);
    series.values.push(value);
  }

  get(name: string): TimeSeries | undefined {
    return this.#series.get(name);
  }
}

/** Readings within a time window; `until` is excluded. */
export function within(
  { times, values }: TimeSeries,
  from: number,
  until: number,
): readonly number[] {
  return values.filter((_, at) => {
    const time = times[at] ?? Number.NaN;
    return time >= from && time < until;
  });
}

/**
 * Counts how often a series reverses direction. A reversal counts once the series has moved more than `amplitude`
 * away from the turning point. Invalid readings are skipped.
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
