// Selectors, compiled by service when a plan is compiled: they choose the rules that apply to a flow. `plan.ts` has the
// index by control point, so a check pays only for the rules at its own control point.

import type { LabelSlots, Labels } from "../label.ts";
import { anyOf, compileMatcher, type Matcher } from "../match/matcher.ts";
import type { Match } from "../match/work.ts";
import type { SelectorRule } from "../rules.ts";

/** Service name of selectors that match every service. */
const ANY = "any";

/** A classifier, meter or limiter, with the condition under which it applies to a flow. */
export interface Candidate<T> {
  readonly item: T;
  /** Undefined matches every flow. */
  readonly matches: Matcher | undefined;
  /** True if the numbers of a limiter let the flow pass whatever its failure mode is. Undefined where they never do. */
  readonly exempts?: ((labels: Labels) => boolean) | undefined;
}

/** One selector at one control point, compiled. */
interface CompiledSelector {
  readonly service: string;
  readonly matches: Matcher | undefined;
}

/** A classifier, meter or limiter with its selectors at one control point. */
export interface Selected<T> extends Pick<Candidate<T>, "exempts"> {
  readonly item: T;
  readonly selectors: readonly CompiledSelector[];
}

/** Compiles the selectors of an item. Throws a Fault when one does not compile. */
export function select<T>(
  item: T,
  selectors: readonly SelectorRule[],
  slots: LabelSlots,
): Selected<T> {
  const compiled = selectors.map(({ service, matcher }) => ({
    service,
    matches: compileMatcher(matcher, slots),
  }));
  return { item, selectors: compiled };
}

/** True if a candidate applies to a flow with these labels. */
export function applies<T>(candidate: Candidate<T>, labels: Labels): Match {
  return candidate.matches === undefined || candidate.matches(labels);
}

/** All services that selectors name, except for `any`. */
export function namedServices(all: readonly Selected<unknown>[]): ReadonlySet<string> {
  const names = all.flatMap(({ selectors }) => selectors.map(({ service }) => service));
  return new Set(names.filter((name) => name !== ANY));
}

/**
 * The candidates for flows of these services, in the order given. An item with several selectors is one
 * candidate, which matches when any of them does.
 */
export function candidates<T>(
  all: readonly Selected<T>[],
  services: ReadonlySet<string>,
): readonly Candidate<T>[] {
  const found: Candidate<T>[] = [];
  for (const { item, selectors, exempts } of all) {
    const open = selectors.filter(({ service }) => service === ANY || services.has(service));
    const matches = anyOf(open.map((selector) => selector.matches));
    if (open.length > 0) found.push({ item, matches, exempts });
  }
  return found.slice();
}
