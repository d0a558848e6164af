// Components that agents carry out on flows: rate and concurrency limiters, samplers and load ramps.

import { formatSeconds } from "#base/duration.ts";
import { FAILURE_MODES } from "#base/failure-mode.ts";
import { MISSING_LABEL_MODES, SESSION_HASHES, UNSETTLED_MODES } from "#flow/rules.ts";
import type { Refuse } from "../document/finding.ts";
import type { Warn } from "../document/warning.ts";
import {
  about,
  choice,
  configKey,
  deprecated,
  duration,
  durationOr,
  filledList,
  flag,
  labelKey,
  list,
  maybe,
  message,
  number,
  part,
  required,
  switches,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, outs, reading } from "./ports.ts";
import { selectors } from "./selector.ts";
import { statusCode } from "./status-code.ts";

const TWO_HOURS = 7_200_000;

const lazySync = message("RateLimiter.Parameters.LazySync", {
  enabled: about("Lets agents decide from their own counts between syncs.", flag()),
  num_sync: about("Number of syncs in each interval.", uint32({ default: 4, above: 0 })),
});

const maxIdleTime = (effect: string) => about(effect, durationOr(TWO_HOURS));

const INVALID = "a required input is invalid";
const NO_DECISION = "there is no decision (not yet, or no longer)";
const NO_ROOM = "there is no room for another key";

const onFailure = (because: string, usual: string) =>
  about(
    `What happens while the limiter cannot decide, because ${because}. Default: ${usual}. [More](#when-a-limiter-cannot-decide).`,
    choice(FAILURE_MODES),
  );

const onKeyedFailure = () => onFailure(`${INVALID}, ${NO_DECISION}, or ${NO_ROOM}`, "`local`");

const onMissingLabel = (lacks: string, byDefault: string) =>
  about(
    `What happens to a flow without ${lacks}: \`pass\`, \`refuse\`, or \`default_key\`, ${byDefault}`,
    choice(MISSING_LABEL_MODES),
  );

const onMissingKey = () =>
  onMissingLabel(
    "the label `limit_by_label_key`",
    "which counts all such flows together. Default: `pass`. Callers choose their headers, so use `refuse` for a limit that they must not be able to avoid.",
  );

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

const limitByLabelKey = () =>
  about(
    "Label each of whose values has a limit of its own; empty limits all flows together.",
    labelKey(text()),
  );

const MINUTE = 60_000;

const REFUND_STATUS = {
  pattern: "^[1-5](?:xx|[0-9][0-9])$",
  wanted: "a class of HTTP statuses such as 5xx, or a status such as 429",
} as const;

const settlement = message("RateLimiter.Parameters.Settlement", {
  timeout: about(
    "Longest time from the check to the end of a flow. Then `unsettled` applies, and the end changes nothing any more.",
    durationOr(MINUTE, { positive: true }),
  ),
  unsettled: about(
    "What becomes of the tokens of a flow whose end is not reported in time: `keep` leaves them spent, `refund` gives them back. Default: `keep`.",
    choice(UNSETTLED_MODES),
  ),
  refund_statuses: about(
    "HTTP statuses of flows that cost nothing in the end: a class such as `5xx`, or one status such as `429`.",
    list(text({ form: REFUND_STATUS })),
  ),
});

export const rateLimiterParameters = message(
  "RateLimiter.Parameters",
  {
    label_key: about(
      "Former name of `limit_by_label_key`.",
      deprecated("limit_by_label_key", labelKey(text())),
    ),
    limit_by_label_key: limitByLabelKey(),
    interval: about(
      "Time in which `fill_amount` tokens are added.",
      required(duration({ positive: true })),
    ),
    continuous_fill: about(
      "Adds tokens continuously over the interval; false adds them all at once, once per interval.",
      flag(true),
    ),
    max_idle_time: maxIdleTime(
      "A bucket is forgotten when it is full, and not because it is idle. Only Redis goes by this time: it forgets a bucket whose `fill_amount` is 0 when it was unused for so long; 0s keeps it for ever.",
    ),
    lazy_sync: about(
      "Trades accuracy for speed: agents synchronise their counts only now and then.",
      part(lazySync),
    ),
    delay_initial_fill: about(
      "A full bucket that is used starts to fill only after the time that filling it takes, so that the first burst is not followed by more than the rate.",
      flag(),
    ),
    on_missing_label: onMissingKey(),
    on_failure: onKeyedFailure(),
    settlement: about(
      "Makes the tokens that a flow takes an estimate: when it ends, its true cost takes their place. [More](writing-policies.md#costs-that-are-known-at-the-end).",
      switches(part(settlement)),
    ),
  },
  needingKey(
    "limit_by_label_key",
    ({ limit_by_label_key, label_key }) => limit_by_label_key || label_key,
  ),
);

export const rateLimiterIns = message("RateLimiter.Ins", {
  bucket_capacity: required(input("Maximum number of tokens in a bucket.")),
  fill_amount: required(input("Number of tokens added per interval.")),
  pass_through: input("Lets every flow pass while the input is valid and not 0."),
});

export const acceptOuts = message("RateLimiter.Outs", {
  accept_percentage: output("Percentage of flows that were accepted recently."),
});

const requestParameters = message("RateLimiter.RequestParameters", {
  tokens_label_key: about(
    "Label with the number of tokens that a flow takes. A flow without it takes one.",
    labelKey(text()),
  ),
  denied_response_status_code: statusCode("TooManyRequests"),
});
const requests = () => about("How requests are counted and refused.", part(requestParameters));

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
    in_ports: required(ins(rateLimiterIns)),
    parameters: about(
      "Interval, key and behaviour of the buckets.",
      required(part(rateLimiterParameters)),
    ),
    selectors: selectors(),
    request_parameters: requests(),
    out_ports: outs(acceptOuts),
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
    min: about(
      "The limit is never lower, however slow flows are.",
      uint32({ default: 4, above: 0 }),
    ),
    max: about("The limit is never higher.", uint32({ default: 1_000, above: 0 })),
    start: about(
      "The limit before anything is known, to which it returns when no flow arrives for some time. Default: 20, or the nearest number that `min` and `max` allow.",
      maybe(uint32({ above: 0 })),
    ),
    tolerance: about(
      "The limit is cut when flows take so many times as long as without a queue.",
      number({ default: 1.5, min: 1.1, max: 10 }),
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
    limit_by_label_key: limitByLabelKey(),
    max_inflight_duration: about(
      "A flow whose end was not reported counts as ended after this long.",
      required(duration({ positive: true })),
    ),
    max_idle_time: maxIdleTime(
      "Has no effect: a counter is forgotten when its last flow has ended or expired.",
    ),
    on_missing_label: onMissingKey(),
    on_failure: onKeyedFailure(),
    adaptive: about(
      "Lets each limit find its own value from the time that flows take from their check to their end. [More](#adaptive-concurrency).",
      switches(part(adaptiveLimit)),
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
    "Maximum number of flows (or tokens) in flight. Required, except with `adaptive`, whose limit it then bounds as `max` does.",
  ),
  pass_through: input("Lets every flow pass while the input is valid and not 0."),
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
    in_ports: ins(concurrencyLimiterIns),
    parameters: about(
      "Key and timeouts of the counters, and whether the limit is adaptive.",
      required(part(concurrencyLimiterParameters)),
    ),
    selectors: selectors(),
    request_parameters: requests(),
    out_ports: outs(acceptOuts),
  },
  {
    check: ({ in_ports, parameters }, refuse) =>
      checkMaxConcurrency(in_ports, parameters.adaptive, refuse),
  },
);
export type ConcurrencyLimiter = ValueOf<typeof concurrencyLimiter>;

const samplerParameters = message(
  "Sampler.Parameters",
  {
    session_label_key: about(
      "Label that identifies a session: flows with the same value get the same decision.",
      labelKey(text()),
    ),
    label_key: about(
      "Former name of `session_label_key`.",
      deprecated("session_label_key", labelKey(maybe(text()))),
    ),
    selectors: selectors(),
    denied_response_status_code: statusCode("Forbidden"),
    ramp_mode: about(
      "Makes `closed` the default of `on_failure`: no flow passes while `accept_percentage` is invalid.",
      flag(),
    ),
    hash: about(
      "How sessions are chosen: `mixed` spreads all values evenly, `fnv1a` chooses the same sessions as Aperture, but consecutive numbers in runs. Default: `mixed`.",
      choice(SESSION_HASHES),
    ),
    on_missing_label: onMissingLabel(
      "the label `session_label_key`",
      "which decides about each such flow by chance. Default: `default_key`.",
    ),
    on_failure: onFailure(`${INVALID}, or ${NO_DECISION}`, "`open`, in ramp mode `closed`"),
  },
  needingKey(
    "session_label_key",
    ({ session_label_key, label_key }) => session_label_key || label_key,
  ),
);

const passThrough = () =>
  ({
    pass_through_label_values: about(
      "Values of the session label that are always accepted.",
      list(text()),
    ),
    pass_through_label_values_config_key: about(
      "Key of the dynamic configuration value that overrides `pass_through_label_values`.",
      configKey("texts"),
    ),
  }) as const;

export const sampler = message("Sampler", {
  in_ports: ins(
    message("Sampler.Ins", {
      accept_percentage: input("Percentage of flows to accept."),
    }),
  ),
  parameters: about(
    "Which flows it samples, and by which label.",
    required(part(samplerParameters)),
  ),
  ...passThrough(),
});
export type Sampler = ValueOf<typeof sampler>;

const rampStep = message("LoadRamp.Parameters.Step", {
  target_accept_percentage: about(
    "Percentage of flows accepted at the end of the step.",
    number({ min: 0, max: 100 }),
  ),
  duration: about("Time in which the percentage moves to the target.", required(duration())),
});

export const loadRamp = message("LoadRamp", {
  in_ports: ins(
    message("LoadRamp.Ins", {
      forward: input("Moves towards the last step while valid and not 0."),
      backward: input("Moves towards the first step while valid and not 0."),
      reset: input("Returns to the start at once; takes precedence over both."),
    }),
  ),
  out_ports: outs(
    message("LoadRamp.Outs", {
      accept_percentage: output("Percentage of flows accepted now."),
      at_start: output("1 at the start, otherwise 0."),
      at_end: output("1 at the end, otherwise 0."),
    }),
  ),
  parameters: about(
    "The sampler and the steps.",
    required(
      part(
        message("LoadRamp.Parameters", {
          sampler: about(
            "The sampler that carries out the ramp, always in ramp mode.",
            required(part(samplerParameters)),
          ),
          steps: about("Steps of the ramp, in order.", filledList(part(rampStep))),
        }),
      ),
    ),
  ),
  ...passThrough(),
});
export type LoadRamp = ValueOf<typeof loadRamp>;

/** The section of the reference page about `on_failure` and `on_missing_label`. */
export const CANNOT_DECIDE: readonly string[] = [
  "## When a limiter cannot decide",
  "",
  "`on_failure` says what happens to flows while a limiter cannot decide. The reply names the mode that decided",
  "(`failure_mode` of its limiter decision), and the policy's status lists the limiters and the invalid inputs.",
  "",
  "| | An input is invalid, or there is no decision (not yet, or no longer) | No room for another key: `flow_control.max_keys` | Shared counters do not answer | A label value is too long to be tested | The agent is overloaded |",
  "|---|---|---|---|---|---|",
  "| `open` | passes; a sampler accepts 100 % | passes uncounted¹ | passes | passes | passes |",
  "| `closed` | refuses; a sampler accepts 0 % | refuses new keys¹ | refuses | refuses | refuses |",
  "| `local` | what the kind does by default: limiters pass, samplers pass, ramps refuse | new keys share 256 counts of slots¹; with Redis, counts in process | counts in process | judges as if the rule applied | what the kind does by default |",
  "| `last_known` | keeps using the last valid numbers; as `local` until there are any | as `local` | as `local` | as `local` | as `local` |",
  "",
  "¹ Rate limiters and quota schedulers that do not count in Redis always have room for another key, whatever `on_failure` says: they",
  "forget the key that has used the least of its limit ([counters](counters.md#more-keys-than-fit)).",
  "",
  "Defaults: `local` for limiters and the schedulers that are built on them, `open` for samplers, `closed` for samplers",
  "in ramp mode and load ramps. Samplers have no keys and no counters. The column about shared counters concerns agents that",
  "share their counts ([counters](counters.md)), and the one about long values rules whose selectors have a regular expression",
  "([what it may cost](writing-policies.md#what-regular-expressions-may-cost)).",
  "Values of `pass_through_label_values` pass a sampler in every mode. While the input `pass_through` is on, every flow passes",
  "whatever else is invalid; this does not count as a failure.",
  "",
  "An overloaded agent has more checks than it can judge (`flow_control.overload` in the [configuration](configuration.md)).",
  "It sheds some of them: they are answered without running classifiers or asking limiters. A flow is refused",
  "if a rule that applies fails closed, and passes otherwise; a rule that can only be told to apply by a classifier or a",
  "regular expression is taken to apply. A ramp with `local` or `last_known` goes on letting its share pass, unless a classifier",
  "or a regular expression would have to tell whether it applies, or to which session. `on_missing_label`, `pass_through_label_values` and `pass_through` mean the same as",
  "always, except that `on_failure` answers where a classifier makes the label. The reply has the header `x-sluice-shed`, and",
  "`sluice_shed_checks_total` counts it.",
  "",
  "The time for judging is divided among callers. Whoever asks for less than the fair level is always judged; what others ask",
  "for beyond it is shed, the least important flows first. Callers are told apart by the source address that the check",
  "describes (in IPv6 its network of 64 bits), or by the address from which the check came if it describes none, and within an",
  "address that asks for much by the label that a limiter is keyed by (`limit_by_label_key`), unless a classifier makes it.",
  "Keys that are new count as one caller, so inventing keys gains nothing.",
  "A flow that is shed because of what its own caller takes (`x-sluice-shed: cost`) is refused by each limiter and scheduler",
  "that applies, whatever `on_failure` says, so costly checks are no way past a limit. Samplers follow `on_failure`. That is so",
  "if the address or the key is above the level while at least a quarter of the others is below it, or if one key asks for more",
  "than half of all time. Where nearly all callers ask for too much, `on_failure` answers.",
  "Users who share both address and key are one caller, and so are those behind one gateway whose address comes without keys;",
  "an attacker with many addresses counts as many callers.",
  "",
  "The importance of a flow is its priority in the schedulers that apply to it, where selectors, workloads and",
  "`priority_label_key` compare only labels that the flow arrives with; the highest one counts. Where that takes a classifier",
  "or a regular expression, it is that of `default_workload_parameters`; flows without a scheduler have the priority 1.",
  "Shed flows take no tokens, and neither schedulers nor flux meters count them. Many clients that flood an agent together can",
  "get past every limit that fails open: give limits that protect against abuse, and samplers that block, `on_failure: closed`.",
  "",
  "`on_missing_label` takes precedence: a flow that lacks the label passes or is refused whether or not the limiter can",
  "decide. A refusal has the reason `LIMITER_REASON_KEY_NOT_FOUND` in its limiter decision. The counter",
  "`sluice_limiter_missing_labels_total` counts such flows by component, unless they are shed, and those without the label",
  "`tokens_label_key`, which count as one token.",
];

/** The section of the reference page about `adaptive`. */
export const ADAPTIVE_CONCURRENCY: readonly string[] = [
  "## Adaptive concurrency",
  "",
  "With `adaptive`, a concurrency limiter or scheduler needs no number. An agent measures how long each flow takes, from",
  "the moment at which it passes (the wait in a queue is not part of it) to its end, and moves the limit in steps:",
  "",
  "- It grows while flows reach it and take no longer than `tolerance` times the *baseline*, the mean latency of flows that",
  "  meet no queue. It does not grow while fewer flows are in flight than it allows.",
  "- When flows take longer, it is cut to just below the number at which they do not queue, by half at most. The flows after",
  "  a cut show the baseline, so nothing is ever refused for the sake of a measurement alone.",
  "- If flows stay slow after a cut, they are slow for another reason: the limit rises again and the baseline is the new latency.",
  "- After 30 s without flows the limit returns to `start`, halfway in each minute; after ten minutes nothing is known any more.",
  "",
  "A step takes at least 100 flows in 200 ms, or 20 flows in 2 s, besides those that were in flight at its begin. Flows that",
  "end within a tenth of the baseline, as those do that fail at once, are not measured unless nearly all do. A slot that",
  "expires (`max_inflight_duration`) is not measured, because its end may have been lost; but where most slots of a step",
  "expire, the service hangs, and the limit is cut by half. Every end counts, whoever reports it; where nobody does, the",
  "limit stays at `start`.",
  "",
  "With `limit_by_label_key`, each label value has a limit of its own, 16 384 of them at most; further ones share what they",
  "learn. The signal `max_concurrency` may be left out. Where it is connected, the limit is never above it, and",
  "`on_failure` decides while it is invalid. Agents of other makers ignore `adaptive` and use `max_concurrency`, or `max`.",
  "",
  "[Counters](counters.md#adaptive-limits) says who holds the limit where agents share it, and compares it with other limits.",
];
