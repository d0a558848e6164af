// The model of a service as a scenario describes it: who asks, how long an answer takes, how many are made
// at once, how many may wait, and what callers do when they get none.

import { type Profile, profile, steady } from "./profile.ts";
import {
  checked,
  duration,
  flag,
  labelValue,
  list,
  map,
  maybe,
  need,
  number,
  object,
  oneKey,
  or,
  type Shape,
  text,
  word,
} from "./shape.ts";

/** Milliseconds of work for one request. */
export type ServiceTime =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "exponential"; readonly value: number }
  | {
      readonly kind: "lognormal";
      readonly value: { readonly median: number; readonly p95: number };
    };

/** A kind of request: its share of all, and the labels that its flows carry. */
export interface Sort {
  readonly share: number;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Retries {
  /** Attempts after the first. */
  readonly most: number;
  /** Wait before the first of them, ms. */
  readonly after: number;
  /** Each further wait is so many times the one before it. */
  readonly grow: number;
  /** Part of a wait that is left to chance, 0 to 1: callers do not come back in step. */
  readonly jitter: number;
  readonly of: readonly ("refused" | "failed")[];
}

export interface Served {
  readonly name: string;
  readonly controlPoint: string;
  /** Services that its flows belong to, for selectors. */
  readonly services: readonly string[];
  readonly rampMode: boolean;
  readonly arrivals: "poisson" | "uniform";
  /** First attempts a second. */
  readonly rate: Profile;
  readonly mix: readonly Sort[];
  readonly time: ServiceTime;
  /** Service times are multiplied by it. */
  readonly slowdown: Profile;
  readonly servers: number;
  /** Requests that may wait; Infinity is no bound. */
  readonly queue: number;
  /** How long callers wait for an answer, ms; Infinity is for ever. */
  readonly timeout: number;
  readonly retries: Retries | undefined;
}

const positive = duration({ positive: true });

const time: Shape<ServiceTime> = oneKey("a service time", {
  constant: duration(),
  exponential: positive,
  lognormal: checked(
    object("a lognormal time", { median: need(positive), p95: need(positive) }),
    ({ median, p95 }, say) => {
      if (p95 < median) say(["p95"], "at least the median", `${p95} ms`);
    },
  ),
});

const sort: Shape<Sort> = object("a part of the mix", {
  share: need(number({ above: 0 })),
  labels: or(map(labelValue), {}),
});

const retries: Shape<Retries> = object("retries", {
  most: need(number({ min: 0, max: 100, whole: true })),
  after: or(duration(), 100),
  grow: or(number({ min: 1 }), 2),
  jitter: or(number({ min: 0, max: 1 }), 0.5),
  of: or(list(word(["refused", "failed"]), true), ["refused", "failed"]),
});

const given = object("a service", {
  name: need(text()),
  control_point: need(text()),
  services: or(list(text()), []),
  ramp_mode: or(flag, false),
  arrivals: or(word(["poisson", "uniform"]), "poisson"),
  rate: need(profile(number({ min: 0 }))),
  mix: or(list(sort, true), [{ share: 1, labels: {} }]),
  service_time: need(time),
  slowdown: or(profile(number({ above: 0 })), steady(1)),
  servers: need(number({ min: 1, max: 100_000, whole: true })),
  queue: maybe(number({ min: 0, whole: true })),
  timeout: maybe(positive),
  retries: maybe(retries),
});

export const served: Shape<Served> = {
  read(tree, path, report) {
    const read = given.read(tree, path, report);
    if (read === undefined) return undefined;
    const { control_point, ramp_mode, service_time, queue, timeout, ...same } = read;
    return {
      ...same,
      controlPoint: control_point,
      rampMode: ramp_mode,
      time: service_time,
      queue: queue ?? Number.POSITIVE_INFINITY,
      timeout: timeout ?? Number.POSITIVE_INFINITY,
    };
  },
};
