// Generates queries of everything that the local evaluator supports. Operations that are not continuous
// (comparisons, rounding, selection) get operands that every correct implementation computes bit by bit.

import type { Chance } from "#base/chance.ts";

const SELECTED = [
  "temperature",
  "requests_total",
  "level",
  "limit",
  "alone",
  "build_info",
  "latency_bucket",
];
const COUNTERS = ["requests_total", "latency_bucket"];
/** No two values are the same, so that there is one order. */
const DISTINCT = ["temperature", "requests_total"];
const MATCHERS = [
  'job="api"',
  'job!="web"',
  'job=~"api|db"',
  'job=~".*b"',
  'job!~"w.+"',
  'job=~"e.|p.*"',
  'zone="a"',
  'instance="1"',
  'code=~"[45].."',
  'absentlabel=""',
  'nosuch="x"',
];
const LABELS = ["job", "zone", "instance", "code", "le", "version", "nosuch"];
const EXACT_RANGE = [
  "min_over_time",
  "max_over_time",
  "count_over_time",
  "last_over_time",
  "present_over_time",
  "changes",
  "resets",
];
const ROUGH_RANGE = ["avg_over_time", "sum_over_time", "stddev_over_time", "stdvar_over_time"];
const RATES = ["rate", "increase", "irate"];
const DELTAS = ["delta", "idelta"];
const EXACT_MAP = ["abs", "ceil", "floor", "round", "sgn"];
const ROUGH_MAP = ["exp", "ln", "log2", "log10", "sqrt"];
const EXACT_SUM = ["min", "max", "count", "group"];
const ROUGH_SUM = ["sum", "avg"];
/** Applied only to finite values: of one infinite value version 2 says 0 and version 3 NaN. */
const SPREADS = ["stddev", "stdvar"];
const FINITE = ["requests_total", "level", "latency_bucket"];
const ARITHMETIC = ["+", "-", "*", "/"];
const COMPARISONS = ["==", "!=", ">", "<", ">=", "<="];

export class Queries {
  readonly #chance: Chance;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  query(): string {
    return this.#rolls(0.06) ? this.#number(3) : this.#vector(3);
  }

  #rolls(part: number): boolean {
    return this.#chance() < part;
  }

  #one<T>(of: readonly T[]): T {
    const found = of[Math.floor(this.#chance() * of.length)];
    if (found === undefined) throw new Error("wanted something to choose from");
    return found;
  }

  #some(of: readonly string[], most: number): string {
    return of.filter(() => this.#rolls(most / of.length)).join(", ");
  }

  #literal(): string {
    return this.#one([
      "0",
      "1",
      "-1",
      "2.5",
      "0.1",
      "10",
      "1e3",
      "-7",
      "0x10",
      "Inf",
      "NaN",
      "1e-3",
    ]);
  }

  #between(low: number, high: number): string {
    return (low + this.#chance() * (high - low)).toFixed(6);
  }

  #offset(): string {
    return this.#rolls(0.15) ? ` offset ${this.#one(["30s", "1m", "2m30s", "6m"])}` : "";
  }

  #selector(names: readonly string[], modifier = ""): string {
    const matchers = this.#some(MATCHERS, 0.4);
    const name = this.#one(names);
    const spelt = this.#rolls(0.05) ? `{__name__=~"${name}"${matchers && `,${matchers}`}}` : "";
    return `${spelt || `${name}${matchers && `{${matchers}}`}`}${modifier}${this.#offset()}`;
  }

  #range(names: readonly string[]): string {
    return this.#selector(names, `[${this.#one(["15s", "30s", "1m", "2m", "5m", "10m", "1m7s"])}]`);
  }

  #number(depth: number): string {
    if (depth === 0 || this.#rolls(0.4)) return this.#literal();
    return this.#one([
      () => "time()",
      () => `scalar(${this.#vector(depth - 1)})`,
      () => `(${this.#number(depth - 1)} ${this.#one(ARITHMETIC)} ${this.#number(depth - 1)})`,
      () => `(${this.#literal()} ${this.#one(COMPARISONS)} bool ${this.#literal()})`,
      () => `-${this.#number(depth - 1)}`,
    ])();
  }

  #exact(depth: number): string {
    if (depth <= 0 || this.#rolls(0.25)) return this.#selector(SELECTED);
    return this.#one([
      () => `${this.#one(EXACT_RANGE)}(${this.#range(SELECTED)})`,
      () => `${this.#one(EXACT_MAP)}(${this.#exact(depth - 1)})`,
      () => `round(${this.#exact(depth - 1)}, ${this.#one(["0.5", "5", "10"])})`,
      () => `clamp(${this.#exact(depth - 1)}, ${this.#literal()}, ${this.#literal()})`,
      () =>
        `${this.#one(["clamp_min", "clamp_max"])}(${this.#exact(depth - 1)}, ${this.#literal()})`,
      () => this.#grouped(this.#one(EXACT_SUM), this.#exact(depth - 1)),
      () =>
        `${this.#one(["topk", "bottomk"])}${this.#by()} (${this.#one(["1", "2", "3", "0"])}, ${this.#selector(DISTINCT)})`,
      () => this.#grouped("count_values", this.#selector(["level", "limit"]), '"value"'),
      () => `(${this.#exact(depth - 1)} ${this.#one([...ARITHMETIC, "%"])} ${this.#literal()})`,
      () => `(${this.#literal()} ${this.#one(ARITHMETIC)} ${this.#exact(depth - 1)})`,
      () =>
        `(${this.#exact(depth - 1)} ${this.#one(COMPARISONS)}${this.#bool()} ${this.#literal()})`,
      () =>
        `(${this.#exact(depth - 1)} ${this.#one(COMPARISONS)}${this.#bool()}${this.#matching()} ${this.#exact(depth - 1)})`,
      () => `-${this.#exact(depth - 1)}`,
      () => `timestamp(${this.#exact(depth - 1)})`,
      () => `vector(${this.#literal()})`,
      () => this.#relabelled(this.#exact(depth - 1)),
    ])();
  }

  #vector(depth: number): string {
    if (depth <= 0) return this.#exact(0);
    return this.#one([
      () => this.#exact(depth),
      () => `${this.#one(ROUGH_RANGE)}(${this.#range(SELECTED)})`,
      () => `${this.#one(RATES)}(${this.#range(COUNTERS)})`,
      () => `${this.#one(RATES)}(${this.#range(COUNTERS)})`,
      () => `${this.#one(DELTAS)}(${this.#range(["temperature", "alone", "level"])})`,
      () => `quantile_over_time(${this.#between(-0.1, 1.1)}, ${this.#range(SELECTED)})`,
      () => `${this.#one(ROUGH_MAP)}(${this.#exact(depth - 1)})`,
      () => this.#grouped(this.#one(ROUGH_SUM), this.#vector(depth - 1)),
      () => this.#grouped(this.#one(ROUGH_SUM), this.#vector(depth - 1)),
      () => this.#grouped(this.#one(SPREADS), this.#selector(FINITE)),
      () => this.#grouped("quantile", this.#vector(depth - 1), this.#between(-0.1, 1.1)),
      () =>
        `(${this.#vector(depth - 1)} ${this.#one(ARITHMETIC)}${this.#matching()} ${this.#vector(depth - 1)})`,
      () => `(${this.#vector(depth - 1)} ${this.#one(ARITHMETIC)} ${this.#number(depth - 1)})`,
      () => `(${this.#exact(depth - 1)} ^ ${this.#one(["2", "0.5", "-1", "limit"])})`,
      () => this.#set(depth),
      () => this.#enriched(depth),
      () => this.#histogram(),
      () => this.#histogram(),
      () => this.#pair(),
      () => `absent(${this.#selector([...SELECTED, "nowhere"])})`,
      () => `absent_over_time(${this.#range([...SELECTED, "nowhere"])})`,
      () => `vector(${this.#number(depth - 1)})`,
      () => `${this.#one(["sort", "sort_desc"])}(${this.#selector(DISTINCT)})`,
    ])();
  }

  #bool(): string {
    return this.#rolls(0.4) ? " bool" : "";
  }

  #by(): string {
    if (this.#rolls(0.3)) return "";
    return ` ${this.#one(["by", "by", "without"])} (${this.#some(LABELS, 1.5)})`;
  }

  #grouped(op: string, operand: string, parameter = ""): string {
    const args = parameter === "" ? operand : `${parameter}, ${operand}`;
    return this.#rolls(0.5) ? `${op}${this.#by()} (${args})` : `${op}(${args})${this.#by()}`;
  }

  #matching(): string {
    if (this.#rolls(0.3)) return "";
    if (this.#rolls(0.4)) return ` on(${this.#one(["job", "job, instance", ""])})`;
    return ` ${this.#one(["on", "ignoring"])}(${this.#some(LABELS, 2)})`;
  }

  /** Labels match without a word about them. */
  #pair(): string {
    const name = this.#one(SELECTED);
    const op = this.#one([...ARITHMETIC, ...COMPARISONS]);
    return `(${name} ${op} ${name} offset 1m)`;
  }

  #set(depth: number): string {
    const word = this.#one(["and", "or", "unless"]);
    return `(${this.#vector(depth - 1)} ${word}${this.#matching()} ${this.#vector(depth - 1)})`;
  }

  #enriched(depth: number): string {
    const op = this.#one(ARITHMETIC);
    const include = this.#one(["()", "(version)", "(version, nosuch)"]);
    const one = this.#selector(["build_info", "limit"]);
    const many = this.#rolls(0.6)
      ? this.#selector(["temperature", "requests_total", "level"])
      : this.#vector(depth - 1);
    return this.#rolls(0.5)
      ? `(${many} ${op} on(job) group_left${include} ${one})`
      : `(${one} ${op} on(job) group_right${include} ${many})`;
  }

  #histogram(): string {
    const part = this.#rolls(0.1) ? this.#one(["-1", "2", "NaN"]) : this.#between(0.02, 0.98);
    const rate = `${this.#one(["rate", "increase"])}(${this.#range(["latency_bucket"])})`;
    return this.#one([
      `histogram_quantile(${part}, ${rate})`,
      `histogram_quantile(${part}, sum by (le) (${rate}))`,
      `histogram_quantile(${part}, sum(${rate}) by (job, le))`,
      `histogram_quantile(${part}, latency_bucket)`,
    ]);
  }

  #relabelled(operand: string): string {
    const change = this.#one([
      '"made", "$1-x", "job", "(a|w).*"',
      '"job", "", "job", "db"',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: braces are Go's.
      '"made", "${rest}$$$2", "job", "(?P<rest>.)(.*)"',
      '"zone", "all", "nosuch", ""',
    ]);
    return `label_replace(${operand}, ${change})`;
  }
}
