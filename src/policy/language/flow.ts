// Components that agents carry out on flows: rate and concurrency limiters, and samplers.

import { formatSeconds } from "#base/duration.ts";
import { FAILURE_MODES } from "#base/failure-mode.ts";
import { STATUS_NAMES } from "#base/http/status.ts";
import { MISSING_LABEL_MODES, SESSION_HASHES, UNSETTLED_MODES } from "#flow/rules.ts";
import type { Refuse } from "../document/finding.ts";
import type { Warn } from "../document/warning.ts";
import {
  choice,
  configKey,
  duration,
  durationOr,
  enumeration,
  flag,
  list,
  message,
  nested,
  number,
  part,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, reading } from "./ports.ts";
import { selectors } from "./selector.ts";

const STATUSES: ReadonlyMap<string, number> = new Map(
  Object.entries(STATUS_NAMES).map(([number, name]) => [name, Number(number)]),
);

/** Statuses below 400 tell the client that nothing went wrong. `Empty` is 0. */
function remark(status: number): string | undefined {
  return status > 0 && status < 400
    ? `a refusal with status ${status} does not look like one: use a status from 400 on`
    : undefined;
}

/** Absent and `Empty` both leave the status to the stage that refuses, which then answers `usual`. */
export const statusCode = (tag: number, usual: string) =>
  enumeration(tag, { name: "StatusCode", numbers: STATUSES, remark }).about(
    `HTTP status of a refusal. Default: ${usual}.`,
  );

const TWO_HOURS = 7_200_000;

const lazySync = message("RateLimiter.Parameters.LazySync", {
  enabled: flag(1).about("Lets agents decide from their own counts between syncs."),
  num_sync: uint32(2, { default: 4, above: 0 }).about("Number of syncs in each interval."),
});

const maxIdleTime = (tag: number, effect: string) => durationOr(tag, TWO_HOURS).about(effect);

const INVALID = "a required input is invalid";
const NO_DECISION = "there is no decision (not yet, or no longer)";
const NO_ROOM = "there is no room for another key";

interface Undecided {
  /** The label that a flow may lack. */
  readonly label: string;
  /** The meaning of `default_key`, and the default. */
  readonly keyless: string;
  readonly because: string;
  readonly usual: string;
}

/** The parameters that all limiters have: what happens to flows that they cannot judge. */
const undecided = ({ label, keyless, because, usual }: Undecided) =>
  ({
    on_missing_label: choice(2000, MISSING_LABEL_MODES).about(
      `What happens to a flow without the label \`${label}\`: \`pass\`, \`refuse\`, or \`default_key\`, which ${keyless}`,
    ),
    on_failure: choice(2001, FAILURE_MODES).about(
      `What happens while the limiter cannot decide, because ${because}. Default: ${usual}. [More](#when-a-limiter-cannot-decide).`,
    ),
  }) as const;

const undecidedKeyed = () =>
  undecided({
    label: "limit_by_label_key",
    keyless:
      "counts all such flows together. Default: `pass`. Callers choose their headers, so use `refuse` for a limit that they must not be able to avoid.",
    because: `${INVALID}, ${NO_DECISION}, or ${NO_ROOM}`,
    usual: "`local`",
  });

/** Warns of `on_missing_label: refuse` where there is no label that could be missing. */
const needingKey = <V extends { readonly on_missing_label: string | undefined }>(
  key: string,
  keyOf: (value: V) => string | undefined,
) => ({
  check(value: V, _: Refuse, warn: Warn): void {
    if (value.on_missing_label !== "refuse" || keyOf(value)) return;
    warn(
      "unusual_value",
      ["on_missing_label"],
      `has no effect without \`${key}\`: no flow lacks a label`,
    );
  },
});

const limitByLabelKey = (tag: number) =>
  text(tag).labelKey.about(
    "Label each of whose values has a limit of its own; empty limits all flows together.",
  );

const MINUTE = 60_000;

const REFUND_STATUS = {
  pattern: "^[1-5](?:xx|[0-9][0-9])$",
  wanted: "a class of HTTP statuses such as 5xx, or a status such as 429",
} as const;

const settlement = message("RateLimiter.Parameters.Settlement", {
  timeout: durationOr(1, MINUTE, { positive: true }).about(
    "Longest time from the check to the end of a flow. Then `unsettled` applies, and the end changes nothing any more.",
  ),
  unsettled: choice(2, UNSETTLED_MODES).about(
    "What becomes of the tokens of a flow whose end is not reported in time: `keep` leaves them spent, `refund` gives them back. Default: `keep`.",
  ),
  refund_statuses: list(3, text({ form: REFUND_STATUS })).about(
    "HTTP statuses of flows that cost nothing in the end: a class such as `5xx`, or one status such as `429`.",
  ),
});

export const rateLimiterParameters = message(
  "RateLimiter.Parameters",
  {
    label_key: text(1)
      .labelKey.deprecated("limit_by_label_key")
      .about("Former name of `limit_by_label_key`."),
    limit_by_label_key: limitByLabelKey(2),
    interval: duration(3, { positive: true }).required.about(
      "Time in which `fill_amount` tokens are added.",
    ),
    continuous_fill: flag(4, true).about(
      "Adds tokens continuously over the interval; false adds them all at once, once per interval.",
    ),
    max_idle_time: maxIdleTime(
      5,
      "A bucket is forgotten when it is full, and not because it is idle. Only Redis goes by this time: it forgets a bucket whose `fill_amount` is 0 when it was unused for so long; 0s keeps it for ever.",
    ),
    lazy_sync: part(6, lazySync).about(
      "Trades accuracy for speed: agents synchronise their counts only now and then.",
    ),
    delay_initial_fill: flag(7).about(
      "A full bucket that is used starts to fill only after the time that filling it takes, so that the first burst is not followed by more than the rate.",
    ),
    ...undecidedKeyed(),
    settlement: part(2002, settlement).switches.about(
      "Makes the tokens that a flow takes an estimate: when it ends, its true cost takes their place. [More](writing-policies.md#costs-that-are-known-at-the-end).",
    ),
  },
  needingKey(
    "limit_by_label_key",
    ({ limit_by_label_key, label_key }) => limit_by_label_key || label_key,
  ),
);

export const rateLimiterIns = message("RateLimiter.Ins", {
  bucket_capacity: input(1, "Maximum number of tokens in a bucket.").required,
  fill_amount: input(2, "Number of tokens added per interval.").required,
  pass_through: input(3, "Lets every flow pass while the input is valid and not 0."),
});

/** The out-ports of a limiter, and of the scheduler that is built on it. */
export const acceptOuts = (tag: number, limiter: "RateLimiter" | "ConcurrencyLimiter") =>
  part(
    tag,
    message(`${limiter}.Outs`, {
      accept_percentage: output(1, "Percentage of flows that were accepted recently."),
    }),
  ).about("Out-ports.");

const requests = (tag: number) =>
  nested(tag, "RequestParameters", {
    tokens_label_key: text(1).labelKey.about(
      "Label with the number of tokens that a flow takes. A flow without it takes one.",
    ),
    denied_response_status_code: statusCode(2, "TooManyRequests"),
  }).about("How requests are counted and refused.");

type RateLimiterIns = ValueOf<typeof rateLimiterIns>;
type RateLimiterParameters = ValueOf<typeof rateLimiterParameters>;

/** Warns of a `max_idle_time` that looks as if it gave quotas back before they are filled. */
export function checkIdleTime(
  { bucket_capacity, fill_amount }: RateLimiterIns,
  { interval, max_idle_time: idle }: RateLimiterParameters,
  path: string,
  warn: Warn,
): void {
  if (idle === 0 || idle === TWO_HOURS) return;
  const [capacity, amount] = [bucket_capacity, fill_amount].map(({ constant_signal: constant }) =>
    constant === undefined ? Number.NaN : reading(constant),
  );
  const fills = ((capacity ?? Number.NaN) / (amount ?? Number.NaN)) * interval;
  if (!(idle < fills) || fills === Number.POSITIVE_INFINITY) return;
  const text = `${formatSeconds(idle)} is shorter than the ${formatSeconds(fills)} that an empty bucket takes to fill: it has no effect, because a bucket is forgotten when it is full and not before`;
  warn("unusual_value", [path, "max_idle_time"], text);
}

export const rateLimiter = message(
  "RateLimiter",
  {
    in_ports: part(1, rateLimiterIns).required.about("In-ports."),
    parameters: part(2, rateLimiterParameters).required.about(
      "Interval, key and behaviour of the buckets.",
    ),
    selectors: selectors(3),
    request_parameters: requests(4),
    out_ports: acceptOuts(5, "RateLimiter"),
  },
  {
    check: ({ in_ports, parameters }, _, warn) =>
      checkIdleTime(in_ports, parameters, "parameters", warn),
  },
);
export type RateLimiter = ValueOf<typeof rateLimiter>;

const adaptiveLimit = message(
  "ConcurrencyLimiter.Parameters.Adaptive",
  {
    min: uint32(1, { default: 4, above: 0 }).about(
      "The limit is never lower, however slow flows are.",
    ),
    max: uint32(2, { default: 1_000, above: 0 }).about("The limit is never higher."),
    start: uint32(3, { above: 0 })
      .optional()
      .about(
        "The limit before anything is known, to which it returns when no flow arrives for some time. Default: 20, or the nearest number that `min` and `max` allow.",
      ),
    tolerance: number(4, { default: 1.5, min: 1.1, max: 10 }).about(
      "The limit is cut when flows take so many times as long as without a queue.",
    ),
  },
  {
    check({ min, max, start }, refuse) {
      if (max < min) refuse(["max"], `at least min (${min})`, String(max));
      else if (start !== undefined && start < min) {
        refuse(["start"], `at least min (${min})`, String(start));
      } else if (start !== undefined && start > max) {
        refuse(["start"], `at most max (${max})`, String(start));
      }
    },
  },
);
export type AdaptiveLimit = ValueOf<typeof adaptiveLimit>;

/** Envoy sends its access log, which ends flows, about this often. */
const SHORTEST_INFLIGHT_MS = 10;

export const concurrencyLimiterParameters = message(
  "ConcurrencyLimiter.Parameters",
  {
    limit_by_label_key: limitByLabelKey(1),
    max_inflight_duration: duration(2, { positive: true }).required.about(
      "A flow whose end was not reported counts as ended after this long.",
    ),
    max_idle_time: maxIdleTime(
      3,
      "Has no effect: a counter is forgotten when its last flow has ended or expired.",
    ),
    ...undecidedKeyed(),
    adaptive: part(2002, adaptiveLimit).switches.about(
      "Lets each limit find its own value from the time that flows take from their check to their end. [More](#adaptive-concurrency).",
    ),
  },
  {
    check(value, refuse, warn) {
      needingKey<typeof value>(
        "limit_by_label_key",
        ({ limit_by_label_key }) => limit_by_label_key,
      ).check(value, refuse, warn);
      const { max_inflight_duration: ms } = value;
      if (ms >= SHORTEST_INFLIGHT_MS) return;
      const text = `a slot expires after ${ms} ms, before the end of most flows can be reported: it limits next to nothing`;
      warn("unusual_value", ["max_inflight_duration"], text);
    },
  },
);

export const concurrencyLimiterIns = message("ConcurrencyLimiter.Ins", {
  max_concurrency: input(
    1,
    "Maximum number of flows (or tokens) in flight. Required, except with `adaptive`, whose limit it then bounds as `max` does.",
  ),
  pass_through: input(2, "Lets every flow pass while the input is valid and not 0."),
});
type ConcurrencyLimiterIns = ValueOf<typeof concurrencyLimiterIns>;

/** Checks that something says how many flows may be in flight. */
export function checkMaxConcurrency(
  ports: ConcurrencyLimiterIns | undefined,
  adaptive: AdaptiveLimit | undefined,
  refuse: Refuse,
): void {
  const port = ports?.max_concurrency;
  if (adaptive === undefined) {
    if (port !== undefined) return;
    const name = ports === undefined ? "in_ports" : "max_concurrency";
    const path = ports === undefined ? ["in_ports"] : ["in_ports", "max_concurrency"];
    refuse(path, `a value: ${name} is required without adaptive`, "nothing");
    return;
  }
  const most = port?.constant_signal === undefined ? undefined : reading(port.constant_signal);
  if (most !== undefined && most < adaptive.min) {
    const path = ["in_ports", "max_concurrency"];
    refuse(path, `at least the min of adaptive (${adaptive.min})`, String(most));
  }
}

export const concurrencyLimiter = message(
  "ConcurrencyLimiter",
  {
    in_ports: part(1, concurrencyLimiterIns).about("In-ports."),
    parameters: part(2, concurrencyLimiterParameters).required.about(
      "Key and timeouts of the counters, and whether the limit is adaptive.",
    ),
    selectors: selectors(3),
    request_parameters: requests(4),
    out_ports: acceptOuts(5, "ConcurrencyLimiter"),
  },
  {
    check: ({ in_ports, parameters }, refuse) =>
      checkMaxConcurrency(in_ports, parameters.adaptive, refuse),
  },
);
export type ConcurrencyLimiter = ValueOf<typeof concurrencyLimiter>;

export const samplerParameters = message(
  "Sampler.Parameters",
  {
    session_label_key: text(2).labelKey.about(
      "Label that identifies a session: flows with the same value get the same decision.",
    ),
    label_key: text(2003)
      .optional()
      .labelKey.deprecated("session_label_key")
      .about("Former name of `session_label_key`."),
    selectors: selectors(3),
    denied_response_status_code: statusCode(4, "Forbidden"),
    ramp_mode: flag(5).about(
      "Makes `closed` the default of `on_failure`: no flow passes while `accept_percentage` is invalid.",
    ),
    hash: choice(2002, SESSION_HASHES).about(
      "How sessions are chosen: `mixed` spreads all values evenly, `fnv1a` chooses the same sessions as Aperture, but consecutive numbers in runs. Default: `mixed`.",
    ),
    ...undecided({
      label: "session_label_key",
      keyless: "decides about each such flow by chance. Default: `default_key`.",
      because: `${INVALID}, or ${NO_DECISION}`,
      usual: "`open`, in ramp mode `closed`",
    }),
  },
  needingKey(
    "session_label_key",
    ({ session_label_key, label_key }) => session_label_key || label_key,
  ),
);

export const passThrough = (tag: number) =>
  ({
    pass_through_label_values: list(tag, text()).about(
      "Values of the session label that are always accepted.",
    ),
    pass_through_label_values_config_key: configKey(
      tag + 1,
      "texts",
      "`pass_through_label_values`",
    ),
  }) as const;

export const sampler = message("Sampler", {
  in_ports: ins(1, { accept_percentage: input(1, "Percentage of flows to accept.") }),
  parameters: part(2, samplerParameters).required.about(
    "Which flows it samples, and by which label.",
  ),
  ...passThrough(5),
});
export type Sampler = ValueOf<typeof sampler>;
