// Expectations of a scenario: a measure, its bounds, and the time window in which it is taken.

import {
  checked,
  duration,
  labelValue,
  map,
  mapped,
  number,
  object,
  oneOf,
  optional,
  required,
  type Schema,
  text,
  withDefault,
} from "./schema.ts";

const REFUSALS = ["rate_limited", "no_tokens", "not_sampled", "no_matching_ramp"] as const;
export type Refusal = (typeof REFUSALS)[number];

export interface Bounds {
  readonly above: number | undefined;
  readonly below: number | undefined;
  readonly at_least: number | undefined;
  readonly at_most: number | undefined;
}

/** Selects requests by service (or all) and labels. */
export interface RequestFilter {
  readonly service: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

/** Latencies in ms, rates per second, shares from 0 to 1. */
export type Measure =
  | { readonly kind: "latency"; readonly which: RequestFilter; readonly percentile: number }
  | { readonly kind: "offered" | "accepted" | "goodput"; readonly which: RequestFilter }
  | { readonly kind: "accept_share" | "failed_share"; readonly which: RequestFilter }
  | {
      readonly kind: "refused_share";
      readonly which: RequestFilter;
      readonly reason: Refusal | undefined;
    }
  /** Every valid reading. */
  | { readonly kind: "range"; readonly name: string }
  /** Difference between the greatest and the smallest reading. */
  | { readonly kind: "spread"; readonly name: string }
  /** Number of reversals larger than `amplitude`. */
  | { readonly kind: "reversals"; readonly name: string; readonly amplitude: number }
  /** Fraction of readings that are valid. */
  | { readonly kind: "valid_share"; readonly name: string }
  | { readonly kind: "alerts"; readonly name: string | undefined };

export interface Expectation {
  /** The name given by the author; undefined for a description derived from the content. */
  readonly name: string | undefined;
  readonly phase: string | undefined;
  readonly from: number | undefined;
  readonly until: number | undefined;
  readonly measure: Measure;
  readonly bounds: Bounds;
}

const which = { service: optional(text()), labels: withDefault(map(labelValue), {}) } as const;

const bounds = (of: Schema<number>) => ({
  above: optional(of),
  below: optional(of),
  at_least: optional(of),
  at_most: optional(of),
});

const BOUNDS = ["above", "below", "at_least", "at_most"] as const;

/** An optional key whose value is measured in this way and has at least one bound. */
function measure<T extends Bounds>(of: Schema<T>, make: (given: T) => Measure) {
  const bounded = checked(of, (given, say) => {
    if (BOUNDS.every((key) => given[key] === undefined)) {
      say([], `a bound: ${BOUNDS.join(", ")}`, "none");
    }
  });
  return optional(
    mapped(bounded, (given) => {
      const { above, below, at_least, at_most } = given;
      return { measure: make(given), bounds: { above, below, at_least, at_most } };
    }),
  );
}

const signal = { signal: required(text()) } as const;
const fraction = bounds(number({ min: 0, max: 1 }));
const count = bounds(number({ min: 0, whole: true }));
const rate = object("a rate", { ...which, ...bounds(number({ min: 0 })) });
const share = object("a share", { ...which, ...fraction });

const MEASURES = {
  latency: measure(
    object("latency", {
      ...which,
      percentile: withDefault(number({ above: 0, max: 100 }), 95),
      ...bounds(duration()),
    }),
    (given) => ({ kind: "latency", which: given, percentile: given.percentile }),
  ),
  offered: measure(rate, (given) => ({ kind: "offered", which: given })),
  accepted: measure(rate, (given) => ({ kind: "accepted", which: given })),
  goodput: measure(rate, (given) => ({ kind: "goodput", which: given })),
  accept_share: measure(share, (given) => ({ kind: "accept_share", which: given })),
  failed_share: measure(share, (given) => ({ kind: "failed_share", which: given })),
  refused_share: measure(
    object("a share of refusals", { ...which, reason: optional(oneOf(REFUSALS)), ...fraction }),
    (given) => ({ kind: "refused_share", which: given, reason: given.reason }),
  ),
  range: measure(object("a signal's range", { ...signal, ...bounds(number()) }), (given) => ({
    kind: "range",
    name: given.signal,
  })),
  spread: measure(object("a signal's spread", { ...signal, ...bounds(number()) }), (given) => ({
    kind: "spread",
    name: given.signal,
  })),
  reversals: measure(
    object("reversals of a signal", {
      ...signal,
      amplitude: required(number({ above: 0 })),
      ...count,
    }),
    ({ signal: name, amplitude }) => ({ kind: "reversals", name, amplitude }),
  ),
  valid_share: measure(object("a share of readings", { ...signal, ...fraction }), (given) => ({
    kind: "valid_share",
    name: given.signal,
  })),
  alerts: measure(object("alerts", { name: optional(text()), ...count }), ({ name }) => ({
    kind: "alerts",
    name,
  })),
} as const;

const KINDS = Object.keys(MEASURES) as readonly (keyof typeof MEASURES)[];

const whole = checked(
  object("an expectation", {
    name: optional(text()),
    phase: optional(text()),
    from: optional(duration()),
    until: optional(duration({ positive: true })),
    ...MEASURES,
  }),
  (given, say) => {
    const found = KINDS.filter((kind) => given[kind] !== undefined);
    const wanted = `one measure out of ${KINDS.join(", ")}`;
    if (found.length !== 1) say([], wanted, found.join(" and ") || "none");
    const { phase, from = 0, until = Number.POSITIVE_INFINITY } = given;
    if (phase !== undefined && (given.from !== undefined || given.until !== undefined)) {
      say(["phase"], "a phase, or from and until", "both");
    }
    if (until <= from) say(["until"], `a time after ${from} ms`, `${until} ms`);
  },
);

export const expectation: Schema<Expectation> = {
  parse(tree, path, report) {
    const given = whole.parse(tree, path, report);
    const found = given && KINDS.map((kind) => given[kind]).find((one) => one !== undefined);
    if (given === undefined || found === undefined) return undefined;
    const { name, phase, from, until } = given;
    return { name, phase, from, until, ...found };
  },
};

/** Describes an expectation in words: `latency p95 of checkout below 100 ms`. */
export function describeMeasure({
  measure,
  bounds,
}: Pick<Expectation, "measure" | "bounds">): string {
  const words: Readonly<Record<keyof Bounds, string>> = {
    above: "above",
    below: "below",
    at_least: "at least",
    at_most: "at most",
  };
  const unit = measure.kind === "latency" ? " ms" : "";
  const limits = BOUNDS.flatMap((key) =>
    bounds[key] === undefined ? [] : [`${words[key]} ${bounds[key]}${unit}`],
  );
  return `${subject(measure)} ${limits.join(" and ")}`;
}

function subject(measure: Measure): string {
  switch (measure.kind) {
    case "latency":
      return `latency p${measure.percentile}${ofWhich(measure.which)}`;
    case "refused_share": {
      const reason = measure.reason === undefined ? "" : ` as ${measure.reason}`;
      return `share refused${reason}${ofWhich(measure.which)}`;
    }
    case "accept_share":
      return `share accepted${ofWhich(measure.which)}`;
    case "failed_share":
      return `share failed${ofWhich(measure.which)}`;
    case "offered":
    case "accepted":
    case "goodput":
      return `${measure.kind} per second${ofWhich(measure.which)}`;
    case "range":
      return measure.name;
    case "spread":
      return `spread of ${measure.name}`;
    case "reversals":
      return `reversals of ${measure.name} larger than ${measure.amplitude}`;
    case "valid_share":
      return `share of valid readings of ${measure.name}`;
    case "alerts":
      return measure.name === undefined ? "alerts" : `alerts ${measure.name}`;
  }
}

function ofWhich({ service, labels }: RequestFilter): string {
  const named = Object.entries(labels).map(([name, value]) => `${shortLabel(name)}=${value}`);
  const parts = [...(service === undefined ? [] : [service]), ...named];
  return parts.length === 0 ? "" : ` of ${parts.join(" ")}`;
}

/** Shortens the labels of headers to the header name. */
export function shortLabel(name: string): string {
  return name.replace(/^http\.request\.header\./, "");
}
