// The description of a service in a scenario: request rate and mix, service time, number of servers, queue size,
// timeouts and retries.

import { type Profile, profile, steady } from "./profile.ts";
import {
  checked,
  duration,
  flag,
  labelValue,
  list,
  map,
  number,
  object,
  oneKey,
  oneOf,
  optional,
  required,
  type Schema,
  text,
  withDefault,
} from "./schema.ts";

/** Time to serve one request, ms. */
export type ServiceTime =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "exponential"; readonly value: number }
  | {
      readonly kind: "lognormal";
      readonly value: { readonly median: number; readonly p95: number };
    };

/** A class of requests: its share of all requests, and the labels of its flows. */
export interface RequestClass {
  readonly share: number;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Retries {
  /** Maximum number of attempts after the first. */
  readonly most: number;
  /** Delay before the first retry, ms. */
  readonly after: number;
  /** Factor by which each further delay grows. */
  readonly grow: number;
  /** Random fraction of a delay, 0 to 1, so that callers do not return in step. */
  readonly jitter: number;
  readonly of: readonly ("refused" | "failed")[];
}

export interface ServiceSpec {
  readonly name: string;
  readonly controlPoint: string;
  /** Services that its flows belong to, for selectors. */
  readonly services: readonly string[];
  readonly rampMode: boolean;
  readonly arrivals: "poisson" | "uniform";
  /** First attempts per second. */
  readonly rate: Profile;
  readonly mix: readonly RequestClass[];
  readonly time: ServiceTime;
  /** Factor on service times. */
  readonly slowdown: Profile;
  readonly servers: number;
  /** Maximum number of waiting requests; Infinity for no bound. */
  readonly queue: number;
  /** Time that callers wait for an answer, ms; Infinity for no limit. */
  readonly timeout: number;
  readonly retries: Retries | undefined;
  /** Interval at which ends are reported to the agent, ms; 0 for at once. */
  readonly reportEvery: number;
}

const positive = duration({ positive: true });

const time: Schema<ServiceTime> = oneKey("a service time", {
  constant: duration(),
  exponential: positive,
  lognormal: checked(
    object("a lognormal time", { median: required(positive), p95: required(positive) }),
    ({ median, p95 }, say) => {
      if (p95 < median) say(["p95"], "at least the median", `${p95} ms`);
    },
  ),
});

const sort: Schema<RequestClass> = object("a part of the mix", {
  share: required(number({ above: 0 })),
  labels: withDefault(map(labelValue), {}),
});

const retries: Schema<Retries> = object("retries", {
  most: required(number({ min: 0, max: 100, whole: true })),
  after: withDefault(duration(), 100),
  grow: withDefault(number({ min: 1 }), 2),
  jitter: withDefault(number({ min: 0, max: 1 }), 0.5),
  of: withDefault(list(oneOf(["refused", "failed"]), true), ["refused", "failed"]),
});

const given = object("a service", {
  name: required(text()),
  control_point: required(text()),
  services: withDefault(list(text()), []),
  ramp_mode: withDefault(flag, false),
  arrivals: withDefault(oneOf(["poisson", "uniform"]), "poisson"),
  rate: required(profile(number({ min: 0 }))),
  mix: withDefault(list(sort, true), [{ share: 1, labels: {} }]),
  service_time: required(time),
  slowdown: withDefault(profile(number({ above: 0 })), steady(1)),
  servers: required(number({ min: 1, max: 100_000, whole: true })),
  queue: optional(number({ min: 0, whole: true })),
  timeout: optional(positive),
  retries: optional(retries),
  report_every: withDefault(duration(), 0),
});

export const serviceSpec: Schema<ServiceSpec> = {
  parse(tree, path, report) {
    const read = given.parse(tree, path, report);
    if (read === undefined) return undefined;
    const { control_point, ramp_mode, service_time, queue, timeout, report_every, ...same } = read;
    return {
      ...same,
      controlPoint: control_point,
      rampMode: ramp_mode,
      time: service_time,
      queue: queue ?? Number.POSITIVE_INFINITY,
      timeout: timeout ?? Number.POSITIVE_INFINITY,
      reportEvery: report_every,
    };
  },
};
