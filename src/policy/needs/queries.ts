// The metrics and flux meters that a query reads.

import { NAME_LABEL, type Selector, walk } from "#promql/syntax/ast.ts";
import { compileMatcher } from "#promql/syntax/matchers.ts";
import { parse } from "#promql/syntax/parse.ts";

/** Metrics and flux meters that a query selects by their exact names; none if it cannot be parsed. */
export function selected(query: string): {
  readonly metrics: readonly string[];
  readonly fluxMeters: readonly string[];
} {
  const metrics = new Set<string>();
  const fluxMeters = new Set<string>();
  for (const { name, matchers } of selectorsOf(query)) {
    const exactly = (label: string) =>
      matchers.find((matcher) => matcher.name === label && matcher.op === "=")?.value;
    metrics.add(name === "" ? (exactly(NAME_LABEL) ?? "") : name);
    fluxMeters.add(exactly("flux_meter_name") ?? "");
  }
  metrics.delete("");
  fluxMeters.delete("");
  return { metrics: [...metrics], fluxMeters: [...fluxMeters] };
}

/** True if a query may select series of this flux meter. */
export function readsFluxMeter(query: string, meter: string): boolean {
  return selectorsOf(query).some(({ name, matchers }) => {
    const fits = (label: string, value: string) =>
      matchers.every((matcher) => matcher.name !== label || compileMatcher(matcher)(value));
    return (
      fits("flux_meter_name", meter) &&
      FLUX_METER_SERIES.some((series) => (name === "" ? fits(NAME_LABEL, series) : name === series))
    );
  });
}

const FLUX_METER_SERIES: readonly string[] = ["sum", "count", "bucket"].map(
  (end) => `flux_meter_${end}`,
);

function selectorsOf(query: string): readonly Selector[] {
  try {
    return [...walk(parse(query))].filter((node) => node.kind === "selector");
  } catch {
    return [];
  }
}
