// Samples of Sluice's own meters, so that queries can be answered with no other server: only of the series
// that loaded queries select, only as far back as they look, and never more than a fixed number.

import { type Expr, NAME_LABEL, type Selector, walk } from "./ast.ts";
import { inOrder, keyOf } from "./evaluate/labels.ts";
import { compileSelector, type Selected } from "./evaluate/selector.ts";
import { Series } from "./evaluate/series.ts";
import { parse } from "./parse.ts";
import type { Labels, Sample } from "./result.ts";

interface SampleLimits {
  readonly series: number;
  /** Of all series together; one takes 17 bytes. */
  readonly samples: number;
}

const LIMITS: SampleLimits = { series: 20_000, samples: 4_000_000 };

/** An evaluation may be so late after the tick that it is for, ms. */
const LATE_MS = 10_000;
/** A clock that goes back no further corrects itself; one that goes back further was set, ms. */
const SET_BACK_MS = 2_000;

interface Want {
  readonly selected: Selected;
  readonly keepMs: number;
}

export class SampleStore {
  readonly #limits: SampleLimits;
  #wants: readonly Want[] = [];
  readonly #names = new Map<string, boolean>();
  #scrape = 0;
  #last = Number.NEGATIVE_INFINITY;
  readonly #series = new Map<string, Series>();
  readonly #byName = new Map<string, Set<Series>>();
  /** Scrapes tend to bring the same objects; null: nobody wants it. */
  #known = new WeakMap<Labels, Series | null>();
  #room = 0;
  #dropped = 0;
  #restarts = 0;

  constructor(limits: Partial<SampleLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /** Samples lost to the limits. */
  get dropped(): number {
    return this.#dropped;
  }

  /** How often the clock was set back, and everything began anew. */
  get restarts(): number {
    return this.#restarts;
  }

  get series(): number {
    return this.#series.size;
  }

  /** Samples that there is memory for now. */
  get room(): number {
    return this.#room;
  }

  /** From now on samples are kept for these queries and no others. Those that cannot be read want nothing. */
  want(queries: readonly string[]): void {
    const trees = queries.flatMap(read);
    this.#wants = trees.flatMap((tree) => [...walk(tree)].flatMap(wantOf));
    this.#names.clear();
    this.#known = new WeakMap();
    for (const series of this.#series.values()) {
      const keepMs = this.#keepMs(series.labels);
      if (keepMs === undefined) {
        this.#remove(series);
        continue;
      }
      series.keepMs = keepMs;
      series.forget(this.#last - keepMs - LATE_MS);
      this.#room -= series.capacity;
      series.shrink();
      this.#room += series.capacity;
    }
  }

  /** Whether samples of this metric are worth reading. */
  needs(name: string): boolean {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const needed = this.#wants.some(({ selected }) => selected.fitsName(name));
    // Names come from code, but nothing here depends on it.
    if (this.#names.size < this.#limits.series) this.#names.set(name, needed);
    return needed;
  }

  /**
   * All of one scrape, at Unix ms. A series that the last one had and this one has not ends here; a sample
   * that comes a little late, or twice, counts for nothing. Objects of labels must not change after they were
   * given.
   */
  take(at: number, samples: Iterable<Sample>): void {
    if (at < this.#last - SET_BACK_MS) this.#restart();
    const late = at <= this.#last;
    this.#scrape += 1;
    for (const { labels, value } of samples) {
      const series = this.#find(labels);
      if (series === undefined) continue;
      if (!late && series.last < at) this.#add(series, at, value);
      series.scrape = this.#scrape;
    }
    if (late) return;
    this.#last = at;
    for (const series of this.#series.values()) {
      if (series.scrape !== this.#scrape && !series.ended) this.#add(series, at, undefined);
      if (series.ended && series.last <= at - series.keepMs - LATE_MS) this.#remove(series);
    }
  }

  /** Series that a selector of a wanted query fits. */
  *select(selected: Selected): Generator<Series> {
    const all =
      selected.name === undefined ? this.#series.values() : this.#byName.get(selected.name);
    for (const series of all ?? []) if (selected.fits(series.labels)) yield series;
  }

  /** What was kept lies in a future that may come again with other values. */
  #restart(): void {
    for (const series of this.#series.values()) this.#remove(series);
    this.#last = Number.NEGATIVE_INFINITY;
    this.#restarts += 1;
  }

  #find(labels: Labels): Series | undefined {
    const known = this.#known.get(labels);
    if (known === null) return undefined;
    if (known !== undefined && !known.forgotten) return known;
    if (!this.needs(labels[NAME_LABEL] ?? "")) return undefined;
    const ordered = inOrder(labels);
    const key = keyOf(ordered);
    const series = this.#series.get(key) ?? this.#create(key, ordered);
    if (series !== "full") this.#known.set(labels, series ?? null);
    return series === "full" ? undefined : series;
  }

  #create(key: string, labels: Labels): Series | "full" | undefined {
    const keepMs = this.#keepMs(labels);
    if (keepMs === undefined) return undefined;
    if (this.#series.size >= this.#limits.series) {
      this.#dropped += 1;
      return "full";
    }
    const series = new Series(labels, keepMs);
    this.#series.set(key, series);
    const name = labels[NAME_LABEL] ?? "";
    const namesakes = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, namesakes.add(series));
    return series;
  }

  #add(series: Series, at: number, value: number | undefined): void {
    series.forget(at - series.keepMs - LATE_MS);
    this.#dropped += series.add(at, value, (samples) => {
      if (this.#room + samples > this.#limits.samples) return false;
      this.#room += samples;
      return true;
    });
  }

  #remove(series: Series): void {
    const name = series.labels[NAME_LABEL] ?? "";
    const namesakes = this.#byName.get(name);
    namesakes?.delete(series);
    if (namesakes?.size === 0) this.#byName.delete(name);
    this.#series.delete(keyOf(series.labels));
    this.#room -= series.capacity;
    series.forgotten = true;
  }

  #keepMs(labels: Labels): number | undefined {
    let longest: number | undefined;
    for (const { selected, keepMs } of this.#wants) {
      if (keepMs > (longest ?? -1) && selected.fits(labels)) longest = keepMs;
    }
    return longest;
  }
}

function read(text: string): readonly Expr[] {
  try {
    return [parse(text)];
  } catch {
    return [];
  }
}

function wantOf(node: Expr): readonly Want[] {
  if (node.kind === "range") return wanted(node.of, node.range.ms ?? 0);
  return node.kind === "selector" ? wanted(node, 0) : [];
}

function wanted(selector: Selector, rangeMs: number): readonly Want[] {
  const keepMs = Math.max(0, rangeMs + (selector.offset?.ms ?? 0));
  try {
    return [{ selected: compileSelector(selector), keepMs }];
  } catch {
    return [];
  }
}
