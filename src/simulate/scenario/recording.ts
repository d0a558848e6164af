// Reads recorded series: the response of Prometheus to `query_range` (JSON), or a table with a time column (CSV, as
// dashboards export it). Times are relative to the first sample.

import { Fault } from "#base/fault.ts";
import { greatest, indexAt, type Profile } from "./profile.ts";

/** Selects one of the recorded series. */
export interface Choice {
  /** For JSON: labels of the series. */
  readonly labels: Readonly<Record<string, string>>;
  /** For CSV: its column. May be absent when there is only one beside the time. */
  readonly column: string | undefined;
}

interface Sample {
  /** Milliseconds. */
  readonly at: number;
  readonly value: number;
}

/** A sample is valid until the next one, the last one for the lookback of a metrics server. */
const LOOKBACK_MS = 300_000;

/** @throws Fault INVALID_ARGUMENT saying what was wanted and what was got. */
export function readRecording(text: string, choice: Choice): Profile {
  const json = /^\s*[{[]/.test(text);
  const samples = json ? fromJson(text, choice) : fromCsv(text, choice);
  const first = samples[0];
  if (first === undefined) throw bad("at least one sample", "none");
  const points = samples.map(({ at, value }) => ({ at: at - first.at, value }));
  for (const [place, { at }] of points.entries()) {
    const before = points[place - 1];
    if (before !== undefined && at <= before.at) {
      throw bad("times that rise", `sample ${place + 1} not after the one before it`);
    }
  }
  return recorded(points);
}

function recorded(points: readonly Sample[]): Profile {
  return {
    max: greatest(points),
    at(ms) {
      const point = points[indexAt(points, ms)];
      if (point === undefined || ms < point.at || ms - point.at > LOOKBACK_MS) return Number.NaN;
      return point.value;
    },
  };
}

function fromJson(text: string, { labels }: Choice): readonly Sample[] {
  const series = matrixOf(parsed(text)).filter(({ metric }) =>
    Object.entries(labels).every(([name, value]) => metric[name] === value),
  );
  const [only] = series;
  if (only === undefined || series.length > 1) {
    throw bad("one series with these labels", `${series.length}`);
  }
  return only.values.map((pair) => {
    const [seconds, value] = Array.isArray(pair) ? pair : [];
    if (typeof seconds !== "number")
      throw bad("pairs of Unix seconds and a number", "another form");
    return { at: Math.round(seconds * 1_000), value: numberIn(String(value)) };
  });
}

interface Series {
  readonly metric: Readonly<Record<string, unknown>>;
  readonly values: readonly unknown[];
}

/** The series of a whole response, of its `data`, or of its `result` alone. */
function matrixOf(answer: unknown): readonly Series[] {
  const data = memberOf(answer, "data") ?? answer;
  const result = memberOf(data, "result") ?? data;
  if (!Array.isArray(result))
    throw bad("the answer of query_range", "JSON without a list of series");
  return result.map((one: unknown) => {
    const metric = memberOf(one, "metric") ?? {};
    const values = memberOf(one, "values");
    if (!Array.isArray(values) || typeof metric !== "object") {
      throw bad("series with values (a matrix)", "a series without a list of values");
    }
    return { metric: metric as Series["metric"], values };
  });
}

function memberOf(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "wanted JSON, got text that is not JSON", { cause });
  }
}

const TIME_NAMES: ReadonlySet<string> = new Set(["time", "timestamp", "at", "t", "date"]);

function fromCsv(text: string, { column }: Choice): readonly Sample[] {
  const [head, ...rows] = text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "")
    .map(cells);
  if (head === undefined) throw bad("a first line with the columns' names", "an empty file");
  const time = head.findIndex((name) => TIME_NAMES.has(name.toLowerCase()));
  if (time === -1) throw bad("a column time or timestamp", `the columns ${head.join(", ")}`);
  const value = columnOf(head, time, column);
  return rows.map((row, at) => {
    const when = timeIn(row[time] ?? "");
    if (when === undefined) {
      throw bad("Unix seconds, Unix ms or an ISO date as time", `another form in row ${at + 2}`);
    }
    return { at: when, value: numberIn(row[value] ?? "", at + 2) };
  });
}

function columnOf(head: readonly string[], time: number, column: string | undefined): number {
  const others = head.flatMap((_, at) => (at === time ? [] : [at]));
  const chosen = column === undefined ? others : others.filter((at) => head[at] === column);
  const [only] = chosen;
  if (only !== undefined && chosen.length === 1) return only;
  const names = others.map((at) => head[at]).join(", ");
  throw bad(
    column === undefined ? "a column by name" : `one column ${column}`,
    `the columns ${names}`,
  );
}

/** RFC 4180: cells may be in quotes, with inner quotes doubled. Line breaks inside cells are not supported. */
function cells(line: string): readonly string[] {
  const found: string[] = [];
  for (const [, quoted, plain = ""] of line.matchAll(
    /(?:^|,)(?:\s*"((?:[^"]|"")*)"\s*|([^,]*))/g,
  )) {
    found.push(quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
  }
  return found;
}

/** Plain numbers from here on are milliseconds; as seconds they would be after the year 5138. */
const MIN_AS_MS = 1e11;

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?(?:Z|([+-])(\d\d):?(\d\d))?$/;

function timeIn(text: string): number | undefined {
  const plain = Number(text);
  if (text !== "" && Number.isFinite(plain)) {
    return Math.round(plain < MIN_AS_MS ? plain * 1_000 : plain);
  }
  const found = ISO.exec(text);
  if (found === null) return undefined;
  const [, year, month, day, hour, minute, second = 0, fraction = "", sign, hours, minutes] = found;
  const offset = (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * (sign === "-" ? -1 : 1);
  const days = daysOf(Number(year), Number(month), Number(day));
  const seconds = (days * 24 + Number(hour)) * 3_600 + (Number(minute) - offset) * 60;
  return (seconds + Number(second)) * 1_000 + Number(fraction.padEnd(3, "0"));
}

/** Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that leap days come last. */
function daysOf(year: number, month: number, day: number): number {
  const from = month > 2 ? year : year - 1;
  const inYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const leaps = Math.floor(from / 4) - Math.floor(from / 100) + Math.floor(from / 400);
  return from * 365 + leaps + inYear - 719_468;
}

const SPECIAL: Readonly<Record<string, number>> = {
  "": Number.NaN,
  NaN: Number.NaN,
  null: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};

function numberIn(text: string, row?: number): number {
  if (Object.hasOwn(SPECIAL, text)) return SPECIAL[text] ?? Number.NaN;
  const value = Number(text);
  if (Number.isFinite(value)) return value;
  throw bad("numbers as values", row === undefined ? "another form" : `another form in row ${row}`);
}

function bad(what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `wanted ${what}, got ${got}`);
}
