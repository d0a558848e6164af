// Expectations of a scenario: a measure, its bounds, and the time window in which it is taken.

import {
  checked,
  duration,
  labelValue,
  map,
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

function bounded<T extends Bounds>(of: Schema<T>): Schema<T> {
  return checked(of, (given, say) => {
    if (BOUNDS.every((key) => given[key] === undefined)) {
      say([], `a bound: ${BOUNDS.join(", ")}`, "none");
    }
  });
}

const rate = bounded(object("a rate", { ...which, ...bounds(number({ min: 0 })) }));
const share = bounded(object("a share", { ...which, ...bounds(number({ min: 0, max: 1 })) }));
const count = number({ min: 0, whole: true });
const signal = text();

const ARMS = {
  latency: bounded(
    object("latency", {
      ...which,
      percentile: withDefault(number({ above: 0, max: 100 }), 95),
      ...bounds(duration()),
    }),
  ),
  offered: rate,
  accepted: rate,
  goodput: rate,
  accept_share: share,
  failed_share: share,
  refused_share: bounded(
    object("a share of refusals", {
      ...which,
      reason: optional(oneOf(REFUSALS)),
      ...bounds(number({ min: 0, max: 1 })),
    }),
  ),
  range: bounded(object("a signal's range", { signal: required(signal), ...bounds(number()) })),
  spread: bounded(object("a signal's spread", { signal: required(signal), ...bounds(number()) })),
  reversals: bounded(
    object("reversals of a signal", {
      signal: required(signal),
      amplitude: required(number({ above: 0 })),
      ...bounds(count),
    }),
  ),
  valid_share: bounded(
    object("a share of readings", {
      signal: required(signal),
      ...bounds(number({ min: 0, max: 1 })),
    }),
  ),
  alerts: bounded(object("alerts", { name: optional(text()), ...bounds(count) })),
} as const;

type Kind = keyof typeof ARMS;
const KINDS = Object.keys(ARMS) as readonly Kind[];

const whole = checked(
  object("an expectation", {
    name: optional(text()),
    phase: optional(text()),
    from: optional(duration()),
    until: optional(duration({ positive: true })),
    latency: optional(ARMS.latency),
    offered: optional(ARMS.offered),
    accepted: optional(ARMS.accepted),
    goodput: optional(ARMS.goodput),
    accept_share: optional(ARMS.accept_share),
    failed_share: optional(ARMS.failed_share),
    refused_share: optional(ARMS.refused_share),
    range: optional(ARMS.range),
    spread: optional(ARMS.spread),
    reversals: optional(ARMS.reversals),
    valid_share: optional(ARMS.valid_share),
    alerts: optional(ARMS.alerts),
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

type Given = NonNullable<ReturnType<typeof whole.parse>>;

export const expectation: Schema<Expectation> = {
  parse(tree, path, report) {
    const given = whole.parse(tree, path, report);
    const found = given === undefined ? undefined : measureOf(given);
    if (given === undefined || found === undefined) return undefined;
    const { name, phase, from, until } = given;
    const { above, below, at_least, at_most } = found.bounds;
    return {
      name,
      phase,
      from,
      until,
      measure: found.measure,
      bounds: { above, below, at_least, at_most },
    };
  },
};

function measureOf(
  given: Given,
): { readonly measure: Measure; readonly bounds: Bounds } | undefined {
  const { latency, refused_share: refused, reversals, alerts } = given;
  if (latency !== undefined) {
    const { percentile } = latency;
    return { measure: { kind: "latency", which: latency, percentile }, bounds: latency };
  }
  if (refused !== undefined) {
    const { reason } = refused;
    return { measure: { kind: "refused_share", which: refused, reason }, bounds: refused };
  }
  if (reversals !== undefined) {
    const { signal: name, amplitude } = reversals;
    return { measure: { kind: "reversals", name, amplitude }, bounds: reversals };
  }
  if (alerts !== undefined) {
    return { measure: { kind: "alerts", name: alerts.name }, bounds: alerts };
  }
  return requestsOrReadings(given);
}

function requestsOrReadings(given: Given) {
  for (const kind of ["offered", "accepted", "goodput", "accept_share", "failed_share"] as const) {
    const which = given[kind];
    if (which !== undefined) return { measure: { kind, which }, bounds: which };
  }
  for (const kind of ["range", "spread", "valid_share"] as const) {
    const of = given[kind];
    if (of !== undefined) return { measure: { kind, name: of.signal }, bounds: of };
  }
  return undefined;
}

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
