// Findings, which make a document invalid, and warnings, which do not. A `Report` collects both for one text and
// bounds them, so that a large bad document cannot produce an unbounded answer.

import { formatPath, type Path, type Position } from "./tree.ts";
import type { Warning, WarningCode } from "./warning.ts";

/** One reason why a document is invalid. */
export interface Finding {
  /** The text, as messages name it: a file's path. */
  readonly source: string;
  readonly at: Position;
  /** Path of the offending part as text, such as `circuit.components[2]`; "" is the whole document. */
  readonly path: string;
  readonly wanted: string;
  readonly got: string;
}

/** Adds a finding about the part at `path`. */
export type Refuse = (path: Path, wanted: string, got: string) => void;

/** Findings and warnings that a report keeps of each. Further ones are only counted. */
const MAX_KEPT = 100;

/** Length of one part of a finding in UTF-16 units; longer parts are cut, since names can be as long as the text. */
const MAX_LENGTH = 500;

/** Limit of `Report.spend`; worth a second at worst. */
const MAX_COST = 100_000;

/** A position, or a function that finds it: searching takes time in proportion to the document. */
type Place = Position | (() => Position);

/** Collects findings and warnings about one text. */
export class Report {
  /** The text, as messages name it. */
  readonly source: string;
  readonly #findings: Finding[] = [];
  readonly #warnings: Warning[] = [];
  #faults = 0;
  #warningCount = 0;
  #spent = 0;

  constructor(source = "") {
    this.source = source;
  }

  /** Number of findings, including those that were not kept. */
  get faults(): number {
    return this.#faults;
  }

  /** True when further findings are only counted, so their words need not be worked out. */
  get full(): boolean {
    return this.#faults >= MAX_KEPT;
  }

  refuse(at: Place, path: Path, wanted: string, got: string): void {
    if (!this.full) this.#findings.push(this.#finding(placeOf(at), path, wanted, got));
    this.#faults += 1;
  }

  warn(code: WarningCode, at: Place, path: Path, text: string): void {
    if (this.#warningCount < MAX_KEPT) {
      const { source } = this;
      const place = { source, at: placeOf(at), path: cut(formatPath(path)) };
      this.#warnings.push({ code, ...place, text: cut(text) });
    }
    this.#warningCount += 1;
  }

  /** Number of warnings that were kept so far. */
  get warningMark(): number {
    return this.#warnings.length;
  }

  /** The warnings that were kept after `warningMark` had this value. */
  warningsSince(mark: number): readonly Warning[] {
    return this.#warnings.slice(mark);
  }

  /**
   * Charges the text for a part whose validation costs more than reading it. False when the text has used up
   * its budget.
   */
  spend(cost: number): boolean {
    this.#spent += cost;
    return this.#spent <= MAX_COST;
  }

  /** In order of position. When findings were dropped, a last one gives their number. */
  get findings(): readonly Finding[] {
    const wanted = "a document without faults";
    // A selector that stands for several targets is judged once for each.
    const unique = new Map(this.#findings.map((each) => [JSON.stringify(each), each]));
    const repeated = this.#findings.length - unique.size;
    return listed([...unique.values()], this.#faults - repeated, (at, more) =>
      this.#finding(at, [], wanted, more),
    );
  }

  #finding(at: Position, path: Path, wanted: string, got: string): Finding {
    const { source } = this;
    return { source, at, path: cut(formatPath(path)), wanted: cut(wanted), got: cut(got) };
  }

  get warnings(): readonly Warning[] {
    return listed(this.#warnings, this.#warningCount, (at, text) => ({
      code: "unusual_value",
      source: this.source,
      at,
      path: "",
      text,
    }));
  }
}

function placeOf(at: Place): Position {
  return typeof at === "function" ? at() : at;
}

function listed<T extends { readonly at: Position }>(
  kept: readonly T[],
  count: number,
  last: (at: Position, more: string) => T,
): readonly T[] {
  const sorted = kept.toSorted(
    ({ at: left }, { at: right }) => left.line - right.line || left.column - right.column,
  );
  const end = sorted.at(-1);
  if (end === undefined || count === kept.length) return sorted;
  return [...sorted, last(end.at, `these and ${count - kept.length} more`)];
}

function cut(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH)}…`;
}
