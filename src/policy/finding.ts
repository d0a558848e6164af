// What the room has to say about a text: findings that refuse it, and notices that do not. One report holds
// both and bounds them, so that nobody who asks for a judgement gets more back than a person can use.

import { formatPath, type Path, type Position } from "./tree.ts";

/** One reason why a document is refused. */
export interface Finding {
  readonly at: Position;
  /** Where in the document, as text; "" means the document as a whole. */
  readonly path: string;
  readonly wanted: string;
  readonly got: string;
}

/** Something a person should know about a document that is accepted. */
export interface Notice {
  readonly at: Position;
  readonly path: string;
  readonly text: string;
}

/** Adds a fault at a place of the policy. */
export type Refuse = (path: Path, wanted: string, got: string) => void;

/** More than anybody mends in one go. Those beyond it are counted, and cost no more than that. */
const MOST = 100;

/** Of one part of a line, in UTF-16 units: names and keys may be as long as the text that holds them. */
const LONGEST = 500;

/** See `Report.spend`: half a second at worst. */
const MOST_SPENT = 100_000;

/** A place, or how to find it: looking for one takes time in proportion to the document. */
type Place = Position | (() => Position);

/** Collects what is said about one text. */
export class Report {
  readonly #findings: Finding[] = [];
  readonly #warnings: Notice[] = [];
  #faults = 0;
  #doubts = 0;
  #spent = 0;

  /** How many faults there were, kept or not. */
  get faults(): number {
    return this.#faults;
  }

  /** Nobody will read what is wanted and got from here on: it need not be worked out. */
  get full(): boolean {
    return this.#faults >= MOST;
  }

  refuse(at: Place, path: Path, wanted: string, got: string): void {
    if (!this.full) this.#findings.push(finding(placeOf(at), path, wanted, got));
    this.#faults += 1;
  }

  note(at: Place, path: Path, text: string): void {
    if (this.#doubts < MOST) {
      this.#warnings.push({ at: placeOf(at), path: cut(formatPath(path)), text: cut(text) });
    }
    this.#doubts += 1;
  }

  /** Some parts take more time to judge than to write. False when the text has had its share of that. */
  spend(cost: number): boolean {
    this.#spent += cost;
    return this.#spent <= MOST_SPENT;
  }

  /** As one reads the text; the last one says how many more there were, if any. */
  get findings(): readonly Finding[] {
    const wanted = "a document without faults";
    return listed(this.#findings, this.#faults, (at, more) => finding(at, [], wanted, more));
  }

  get warnings(): readonly Notice[] {
    return listed(this.#warnings, this.#doubts, (at, text) => ({ at, path: "", text }));
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

export function finding(at: Position, path: Path, wanted: string, got: string): Finding {
  return { at, path: cut(formatPath(path)), wanted: cut(wanted), got: cut(got) };
}

function cut(text: string): string {
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}
