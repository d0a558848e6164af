// Half an hour of realistic scrapes: gauges, counters with resets, series that come and go, histograms, and NaN
// and infinite values.

import type { Chance } from "#base/chance.ts";
import type { Labels, Sample } from "#promql/result.ts";
import type { Written } from "./remote-write.ts";

export interface Scrape {
  /** Unix ms, never a whole second: so no sample lies on the edge of a range, where versions 2 and 3 of a
   * server disagree. */
  readonly at: number;
  readonly samples: readonly Sample[];
}

const START = 1_700_000_000_000;
const EVERY = 10_000;
const SCRAPES = 180;

export const HISTORY = { start: START, end: START + SCRAPES * EVERY } as const;

interface Source {
  readonly labels: Labels;
  /** Undefined: the series is not there. */
  next(scrape: number): number | undefined;
}

export function history(chance: Chance): readonly Scrape[] {
  const sources = [...gauges(chance), ...counters(chance), ...histograms(chance), ...facts(chance)];
  return Array.from({ length: SCRAPES }, (_, scrape) => ({
    // Little jitter: a step that looks like a gap is another place where versions disagree.
    at: START + scrape * EVERY + 100 + Math.floor(chance() * 200),
    samples: sources.flatMap(({ labels, next }) => {
      const value = next(scrape);
      return value === undefined ? [] : [{ labels, value }];
    }),
  }));
}

const JOBS = ["api", "web", "db"];
const ZONES = ["a", "b"];

function gauges(chance: Chance): readonly Source[] {
  const pairs = JOBS.flatMap((job) => ZONES.map((zone) => ({ job, zone })));
  const temperatures = pairs.flatMap((labels, place) =>
    ["1", "2"].map((instance): Source => {
      let value = chance() * 100 - 30;
      return {
        labels: { __name__: "temperature", ...labels, instance },
        next(scrape) {
          value += chance() * 4 - 2;
          if (place === 1 && scrape % 7 === 3 && instance === "1") return Number.NaN;
          if (place === 2 && scrape % 31 === 5) return Number.POSITIVE_INFINITY;
          return place % 3 === 0 && away(scrape, place) ? undefined : value;
        },
      };
    }),
  );
  const levels = pairs.map(
    (labels): Source => ({
      labels: { __name__: "level", ...labels },
      next: () => Math.floor(chance() * 4) - 1,
    }),
  );
  const limits = JOBS.map(
    (job): Source => ({ labels: { __name__: "limit", job }, next: () => 20 }),
  );
  return [...temperatures, ...levels, ...limits];
}

/** Short gaps, and one that lasts. */
function away(scrape: number, place: number): boolean {
  return scrape % 23 < 2 + place || (scrape > 90 && scrape < 140);
}

function counters(chance: Chance): readonly Source[] {
  const codes = ["200", "404", "500"];
  return JOBS.flatMap((job, place) =>
    codes.flatMap((code) =>
      ["1", "2"].map((instance): Source => {
        // So far from zero that a range which begins before the series is not cut there: versions disagree.
        let value = 1e6 + chance() * 1e5;
        return {
          labels: { __name__: "requests_total", job, code, instance },
          next(scrape) {
            value += chance() * 300;
            // Either a series starts over or it has gaps, for the same reason.
            if (place === 0 && scrape > 0 && chance() < 0.03) value = chance() * 200;
            return place === 1 && away(scrape, Number(code) % 3) ? undefined : value;
          },
        };
      }),
    ),
  );
}

const BOUNDS = ["0.1", "0.5", "1", "2.5", "10", "+Inf"];

function histograms(chance: Chance): readonly Source[] {
  return JOBS.flatMap((job) => {
    const counts = BOUNDS.map(() => 1e6);
    return BOUNDS.map(
      (le, place): Source => ({
        labels: { __name__: "latency_bucket", job, le },
        next() {
          if (place === 0) {
            let more = 0;
            for (let at = 0; at < BOUNDS.length; at++) {
              more += at === 2 ? 0 : Math.floor(chance() * 50);
              counts[at] = (counts[at] ?? 0) + more;
            }
          }
          // Buckets that are read at different moments can fall, at first by more than they differ.
          return (counts[place] ?? 0) - (job === "db" && place === 3 ? 1_000 : 0);
        },
      }),
    );
  });
}

function facts(chance: Chance): readonly Source[] {
  const built = JOBS.map(
    (job, place): Source => ({
      labels: { __name__: "build_info", job, version: `1.${place}`, constructor: "yes" },
      next: () => 1,
    }),
  );
  const alone: Source = { labels: { __name__: "alone" }, next: () => chance() };
  return [...built, alone];
}

/** The same as a server gets it. */
export function asWritten(scrapes: readonly Scrape[]): readonly Written[] {
  const series = new Map<Labels, { at: number; value: number | undefined }[]>();
  for (const { at, samples } of scrapes) {
    const present = new Set(samples.map(({ labels }) => labels));
    for (const [labels, all] of series) {
      if (!present.has(labels) && all.at(-1)?.value !== undefined)
        all.push({ at, value: undefined });
    }
    for (const { labels, value } of samples) {
      const all = series.get(labels) ?? [];
      all.push({ at, value });
      series.set(labels, all);
    }
  }
  return [...series].map(([labels, samples]) => ({ labels, samples }));
}
