// Keeps samples of Sluice's own metrics, so that queries can be answered without a Prometheus server. It keeps only
// series that loaded queries select, only as far back as these look, and no more than a fixed number of samples, which
// is divided among the queries.

import { Budget } from "./evaluate/budget.ts";
import { inOrder, keyOf } from "./evaluate/labels.ts";
import { type CompiledSelector, compileSelector } from "./evaluate/selector.ts";
import { Series } from "./evaluate/series.ts";
import type { Labels, Sample } from "./result.ts";
import { NAME_LABEL, type Selector, walk } from "./syntax/ast.ts";
import { parse } from "./syntax/parse.ts";

interface SampleLimits {
  readonly series: number;
  /** Total of all series; a sample takes 17 bytes. */
  readonly samples: number;
}

const LIMITS: SampleLimits = { series: 20_000, samples: 4_000_000 };

/** Maximum delay of an evaluation after its tick, ms. */
const LATE_MS = 10_000;
/** A clock that goes back further than this was reset; up to this it is a correction, ms. */
const SET_BACK_MS = 2_000;

interface Selection {
  readonly selected: CompiledSelector;
  readonly keepMs: number;
}

interface LoadedQuery {
  /** By `Selector.index`. Empty if the query has a selector that cannot be compiled. */
  readonly selections: readonly Selection[];
  /** Time of the last scrape from which a sample that it selects was lost, Unix ms. */
  lostAt: number;
}

export class SampleStore {
  readonly #limits: SampleLimits;
  /** By text: every query is parsed once. */
  #queries = new Map<string, LoadedQuery>();
  readonly #names = new Map<string, boolean>();
  #scrape = 0;
  #last = Number.NEGATIVE_INFINITY;
  readonly #series = new Map<string, Series>();
  readonly #byName = new Map<string, Set<Series>>();
  readonly #owners = new Map<Series, LoadedQuery>();
  /** Series by label object, since scrapes tend to reuse the objects; null when no query selects it. */
  #byLabels = new WeakMap<Labels, Series | null>();
  /** A series counts for the first query that selects it. */
  readonly #seriesBudget: Budget<LoadedQuery>;
  readonly #sampleBudget: Budget<LoadedQuery>;
  #dropped = 0;
  #restarts = 0;

  constructor(limits: Partial<SampleLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
    this.#seriesBudget = new Budget(this.#limits.series);
    this.#sampleBudget = new Budget(this.#limits.samples);
  }

  /** Number of samples lost to the limits. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Number of times the store was cleared because the clock was set back. */
  get restarts(): number {
    return this.#restarts;
  }

  get series(): number {
    return this.#series.size;
  }

  /** Number of samples that memory is allocated for. */
  get capacity(): number {
    return this.#sampleBudget.used;
  }

  /** Keeps samples for these queries only, from now on. Queries that cannot be parsed select nothing. */
  setQueries(queries: readonly string[]): void {
    this.#queries = new Map(queries.map((text) => [text, this.#queryOf(text)]));
    this.#names.clear();
    this.#byLabels = new WeakMap();
    this.#seriesBudget.divide(this.#queries.size);
    this.#sampleBudget.divide(this.#queries.size);
    for (const series of this.#series.values()) {
      const fit = this.#fitOf(series.labels);
      if (fit === undefined) {
        this.#forget(series);
        continue;
      }
      series.keepMs = fit.keepMs;
      series.forget(this.#last - fit.keepMs - LATE_MS);
      series.shrink();
      this.#owners.set(series, fit.owner);
      this.#seriesBudget.add(fit.owner, 1);
      this.#sampleBudget.add(fit.owner, series.capacity);
    }
  }

  /** True if samples of a query were lost to the limits. Its result would be wrong, with no sign of it. */
  isIncomplete(query: string, at: number): boolean {
    const known = this.#queries.get(query);
    if (known === undefined || known.lostAt === Number.NEGATIVE_INFINITY) return false;
    const keepMs = Math.max(0, ...known.selections.map((selection) => selection.keepMs));
    return at - known.lostAt <= keepMs + LATE_MS;
  }

  /** The selectors of a query for which samples are kept, by `Selector.index`. */
  selectorsOf(query: string): readonly CompiledSelector[] | undefined {
    return this.#queries.get(query)?.selections.map(({ selected }) => selected);
  }

  #queryOf(text: string): LoadedQuery {
    const known = this.#queries.get(text);
    return known ?? { selections: selectionsOf(text), lostAt: Number.NEGATIVE_INFINITY };
  }

  /** Tells whether any query selects this metric. */
  needs(name: string): boolean {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const needed = [...this.#queries.values()].some(({ selections }) =>
      selections.some(({ selected }) => selected.fitsName(name)),
    );
    // Metric names come from code, but the cache is bounded all the same.
    if (this.#names.size < this.#limits.series) this.#names.set(name, needed);
    return needed;
  }

  /**
   * Adds all samples of one scrape at `at`, Unix ms. A series that is missing after being in the last scrape ends
   * here. Samples that are slightly out of order or duplicate are ignored. Label objects must not be changed
   * afterwards.
   */
  addScrape(at: number, samples: Iterable<Sample>): void {
    if (at < this.#last - SET_BACK_MS) this.#restart();
    const late = at <= this.#last;
    this.#scrape += 1;
    for (const { labels, value } of samples) {
      const series = this.#find(labels, at);
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

  /** The series that match a selector of one of the queries. */
  *select(selected: CompiledSelector | undefined): Generator<Series> {
    if (selected === undefined) return;
    const all =
      selected.name === undefined ? this.#series.values() : this.#byName.get(selected.name);
    for (const series of all ?? []) if (selected.fits(series.labels)) yield series;
  }

  /** Clears the store: after the clock was set back, its samples are in the future. */
  #restart(): void {
    for (const series of this.#series.values()) this.#remove(series);
    this.#last = Number.NEGATIVE_INFINITY;
    this.#restarts += 1;
  }

  #find(labels: Labels, at: number): Series | undefined {
    const known = this.#byLabels.get(labels);
    if (known === null) return undefined;
    if (known !== undefined && !known.forgotten) return known;
    if (!this.needs(labels[NAME_LABEL] ?? "")) return undefined;
    const ordered = inOrder(labels);
    const key = keyOf(ordered);
    const series = this.#series.get(key) ?? this.#create(key, ordered, at);
    if (series !== "full") this.#byLabels.set(labels, series ?? null);
    return series === "full" ? undefined : series;
  }

  #create(key: string, labels: Labels, at: number): Series | "full" | undefined {
    const fit = this.#fitOf(labels);
    if (fit === undefined) return undefined;
    if (!this.#seriesBudget.take(fit.owner, 1)) {
      this.#lose(1, labels, at);
      return "full";
    }
    const series = new Series(labels, fit.keepMs);
    this.#owners.set(series, fit.owner);
    this.#series.set(key, series);
    const name = labels[NAME_LABEL] ?? "";
    const namesakes = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, namesakes.add(series));
    return series;
  }

  #add(series: Series, at: number, value: number | undefined): void {
    series.forget(at - series.keepMs - LATE_MS);
    const owner = this.#owners.get(series);
    if (owner === undefined) return;
    const lost = series.add(at, value, (samples) => this.#sampleBudget.take(owner, samples));
    if (lost > 0) this.#lose(lost, series.labels, at);
  }

  /** Records that there was no room for samples with these labels. */
  #lose(samples: number, labels: Labels, at: number): void {
    this.#dropped += samples;
    for (const query of this.#queries.values()) {
      if (query.selections.some(({ selected }) => selected.fits(labels))) query.lostAt = at;
    }
  }

  #remove(series: Series): void {
    const owner = this.#owners.get(series);
    if (owner !== undefined) {
      this.#seriesBudget.add(owner, -1);
      this.#sampleBudget.add(owner, -series.capacity);
    }
    this.#forget(series);
  }

  #forget(series: Series): void {
    const name = series.labels[NAME_LABEL] ?? "";
    const namesakes = this.#byName.get(name);
    namesakes?.delete(series);
    if (namesakes?.size === 0) this.#byName.delete(name);
    this.#series.delete(keyOf(series.labels));
    this.#owners.delete(series);
    series.forgotten = true;
  }

  /** The first query that selects a series, and how far back the queries that select it look. */
  #fitOf(labels: Labels): { readonly owner: LoadedQuery; readonly keepMs: number } | undefined {
    let owner: LoadedQuery | undefined;
    let longest = -1;
    for (const query of this.#queries.values()) {
      for (const { selected, keepMs } of query.selections) {
        if (keepMs <= longest || !selected.fits(labels)) continue;
        longest = keepMs;
        owner ??= query;
      }
    }
    return owner === undefined ? undefined : { owner, keepMs: longest };
  }
}

function selectionsOf(text: string): readonly Selection[] {
  try {
    const selections: Selection[] = [];
    for (const node of walk(parse(text))) {
      // The selector of a range is a node of its own, and comes after it.
      if (node.kind === "range") selections[node.of.index] = selection(node.of, node.range.ms ?? 0);
      else if (node.kind === "selector") selections[node.index] ??= selection(node, 0);
    }
    return selections.slice();
  } catch {
    return [];
  }
}

function selection(selector: Selector, rangeMs: number): Selection {
  const keepMs = Math.max(0, rangeMs + (selector.offset?.ms ?? 0));
  return { selected: compileSelector(selector), keepMs };
}
