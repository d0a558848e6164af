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

/** One way to a thing at one control point, compiled. */
interface Way {
  readonly service: string;
  readonly matches: Matcher | undefined;
}

/** One thing and the selectors that lead to it at one control point. */
export interface Selected<T> {
  readonly item: T;
  readonly ways: readonly Way[];
}

export function select<T>(item: T, selectors: readonly SelectorRule[], slots: Slots): Selected<T> {
  const ways = selectors.map(({ service, matcher }) => ({
    service,
    matches: compileMatcher(matcher, slots),
  }));
  return { item, ways };
}

export function applies<T>(candidate: Candidate<T>, labels: Labels): boolean {
  return candidate.matches === undefined || candidate.matches(labels);
}

/** The services that any selector of these names, `any` left out. */
export function namedServices(all: readonly Selected<unknown>[]): ReadonlySet<string> {
  const names = all.flatMap(({ ways }) => ways.map(({ service }) => service));
  return new Set(names.filter((name) => name !== ANY));
}

/**
 * The candidates for flows of these services, in the order given. A thing that several selectors lead to
 * is one candidate that matches when any of them does.
 */
export function candidates<T>(
  all: readonly Selected<T>[],
  services: ReadonlySet<string>,
): readonly Candidate<T>[] {
  const found: Candidate<T>[] = [];
  for (const { item, ways } of all) {
    const open = ways.filter(({ service }) => service === ANY || services.has(service));
    if (open.length > 0) found.push({ item, matches: either(open.map(({ matches }) => matches)) });
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
