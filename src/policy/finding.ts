// What the room has to say about a document: findings that refuse it, and notices that do not.

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

/** Collects findings and notices below one place of one document. */
export interface Report {
  readonly findings: Finding[];
  readonly warnings: Notice[];
}

export function finding(at: Position, path: Path, wanted: string, got: string): Finding {
  return { at, path: formatPath(path), wanted, got };
}
