// A selector made ready to be asked about labels.

import { NAME_LABEL, type Selector } from "../ast.ts";
import type { Labels } from "../result.ts";
import { compileMatcher } from "../syntax/matchers.ts";

export interface Selected {
  /** The one name that fits, if there is only one. */
  readonly name: string | undefined;
  fitsName(name: string): boolean;
  fits(labels: Labels): boolean;
}

/** Throws when an expression is not RE2. */
export function compileSelector({ name, matchers }: Selector): Selected {
  const all = matchers.map((matcher) => ({ name: matcher.name, test: compileMatcher(matcher) }));
  const onName = all.filter((matcher) => matcher.name === NAME_LABEL);
  const exact = matchers.find((matcher) => matcher.name === NAME_LABEL && matcher.op === "=");
  const fitsName = (other: string) =>
    name === "" ? onName.every(({ test }) => test(other)) : name === other;
  const others = all.filter((matcher) => matcher.name !== NAME_LABEL);
  return {
    name: name === "" ? exact?.value : name,
    fitsName,
    fits: (labels) =>
      fitsName(labels[NAME_LABEL] ?? "") &&
      others.every(({ name, test }) => test(labels[name] ?? "")),
  };
}
