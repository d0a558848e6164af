// Which rules speak about a flow: an index by control point and service, built when a plan is compiled.
// A check pays only for the rules at its own control point.

import type { Labels, Slots } from "./label.ts";
import { compileMatcher, type Matcher } from "./match.ts";
import type { SelectorRule } from "./rules.ts";

/** Service of selectors that do not care. */
const ANY = "any";

/** Something that selectors lead to, with the condition under which they do. */
export interface Candidate<T> {
  readonly item: T;
  /** Undefined matches every flow. */
  readonly matches: Matcher | undefined;
}

/** One thing and the selectors that lead to it at one control point. */
export interface Selected<T> {
  readonly item: T;
  readonly selectors: readonly SelectorRule[];
}

export function applies<T>(candidate: Candidate<T>, labels: Labels): boolean {
  return candidate.matches === undefined || candidate.matches(labels);
}

/** The services that any selector of these names, `any` left out. */
export function namedServices(all: readonly Selected<unknown>[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { selectors } of all) {
    for (const { service } of selectors) if (service !== ANY) names.add(service);
  }
  return names;
}

/**
 * The candidates for flows of these services, in the order given. A thing that several selectors lead to
 * is one candidate that matches when any of them does.
 */
export function candidates<T>(
  all: readonly Selected<T>[],
  services: ReadonlySet<string>,
  slots: Slots,
): readonly Candidate<T>[] {
  const found: Candidate<T>[] = [];
  for (const { item, selectors } of all) {
    const here = selectors.filter(({ service }) => service === ANY || services.has(service));
    if (here.length === 0) continue;
    found.push({
      item,
      matches: either(here.map(({ matcher }) => compileMatcher(matcher, slots))),
    });
  }
  return found;
}

function either(matchers: readonly (Matcher | undefined)[]): Matcher | undefined {
  const [first] = matchers;
  if (matchers.length === 1) return first;
  const conditions: Matcher[] = [];
  for (const matcher of matchers) {
    if (matcher === undefined) return undefined;
    conditions.push(matcher);
  }
  return (labels) => conditions.some((matches) => matches(labels));
}
