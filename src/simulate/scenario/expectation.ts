// What must hold in a scenario: a measure, its bounds, and the stretch of time in which it is taken.

import {
  checked,
  duration,
  labelValue,
  map,
  maybe,
  need,
  number,
  object,
  or,
  type Shape,
  text,
  word,
} from "./shape.ts";

export const REFUSALS = ["rate_limited", "no_tokens", "not_sampled", "no_matching_ramp"] as const;
export type Refusal = (typeof REFUSALS)[number];

export interface Bounds {
  readonly above: number | undefined;
  readonly below: number | undefined;
  readonly at_least: number | undefined;
  readonly at_most: number | undefined;
}

/** Which requests are looked at: of one service or all, with these labels. */
export interface Which {
  readonly service: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

/** Latencies in ms, rates per second, shares from 0 to 1. */
export type Measure =
  | { readonly kind: "latency"; readonly which: Which; readonly percentile: number }
  | { readonly kind: "offered" | "accepted" | "goodput"; readonly which: Which }
  | { readonly kind: "accept_share" | "failed_share"; readonly which: Which }
  | { readonly kind: "refused_share"; readonly which: Which; readonly reason: Refusal | undefined }
  /** Every valid reading. */
  | { readonly kind: "range"; readonly name: string }
  /** Distance between the least and the greatest reading. */
  | { readonly kind: "spread"; readonly name: string }
  /** How often it turned round after having moved by more than `amplitude`. */
  | { readonly kind: "reversals"; readonly name: string; readonly amplitude: number }
  /** Part of the readings that are valid. */
  | { readonly kind: "valid_share"; readonly name: string }
  | { readonly kind: "alerts"; readonly name: string | undefined };

export interface Expectation {
  /** As its author calls it; undefined leaves it to its content. */
  readonly name: string | undefined;
  readonly phase: string | undefined;
  readonly from: number | undefined;
  readonly until: number | undefined;
  readonly measure: Measure;
  readonly bounds: Bounds;
}

const which = { service: maybe(text()), labels: or(map(labelValue), {}) } as const;

const bounds = (of: Shape<number>) => ({
  above: maybe(of),
  below: maybe(of),
  at_least: maybe(of),
  at_most: maybe(of),
});

const BOUNDS = ["above", "below", "at_least", "at_most"] as const;

function bounded<T extends Bounds>(of: Shape<T>): Shape<T> {
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
      percentile: or(number({ above: 0, max: 100 }), 95),
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
      reason: maybe(word(REFUSALS)),
      ...bounds(number({ min: 0, max: 1 })),
    }),
  ),
  range: bounded(object("a signal's range", { signal: need(signal), ...bounds(number()) })),
  spread: bounded(object("a signal's spread", { signal: need(signal), ...bounds(number()) })),
  reversals: bounded(
    object("reversals of a signal", {
      signal: need(signal),
      amplitude: need(number({ above: 0 })),
      ...bounds(count),
    }),
  ),
  valid_share: bounded(
    object("a share of readings", { signal: need(signal), ...bounds(number({ min: 0, max: 1 })) }),
  ),
  alerts: bounded(object("alerts", { name: maybe(text()), ...bounds(count) })),
} as const;

type Kind = keyof typeof ARMS;
const KINDS = Object.keys(ARMS) as readonly Kind[];

const whole = checked(
  object("an expectation", {
    name: maybe(text()),
    phase: maybe(text()),
    from: maybe(duration()),
    until: maybe(duration({ positive: true })),
    latency: maybe(ARMS.latency),
    offered: maybe(ARMS.offered),
    accepted: maybe(ARMS.accepted),
    goodput: maybe(ARMS.goodput),
    accept_share: maybe(ARMS.accept_share),
    failed_share: maybe(ARMS.failed_share),
    refused_share: maybe(ARMS.refused_share),
    range: maybe(ARMS.range),
    spread: maybe(ARMS.spread),
    reversals: maybe(ARMS.reversals),
    valid_share: maybe(ARMS.valid_share),
    alerts: maybe(ARMS.alerts),
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

type Given = NonNullable<ReturnType<typeof whole.read>>;

export const expectation: Shape<Expectation> = {
  read(tree, path, report) {
    const given = whole.read(tree, path, report);
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

/** The expectation as people read it: `latency p95 of checkout below 100 ms`. */
export function sayMeasure({ measure, bounds }: Pick<Expectation, "measure" | "bounds">): string {
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

function ofWhich({ service, labels }: Which): string {
  const named = Object.entries(labels).map(([name, value]) => `${shortLabel(name)}=${value}`);
  const parts = [...(service === undefined ? [] : [service]), ...named];
  return parts.length === 0 ? "" : ` of ${parts.join(" ")}`;
}

/** Of a header only its name: what comes before it is the same for all. */
export function shortLabel(name: string): string {
  return name.replace(/^http\.request\.header\./, "");
}
