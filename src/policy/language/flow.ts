// Components that agents carry out on flows: rate and concurrency limiters, samplers and load ramps.

import {
  about,
  configKey,
  deprecated,
  duration,
  durationOr,
  filledList,
  flag,
  labelKey,
  list,
  message,
  number,
  part,
  required,
  text,
  uint32,
  type ValueOf,
} from "./field.ts";
import { input, ins, output, outs } from "./ports.ts";
import { selectors } from "./selector.ts";
import { statusCode } from "./status-code.ts";

const TWO_HOURS = 7_200_000;

const lazySync = message("RateLimiter.Parameters.LazySync", {
  enabled: about("Lets agents decide from their own counts between syncs.", flag()),
  num_sync: about("Number of syncs in each interval.", uint32({ default: 4, above: 0 })),
});

const maxIdleTime = () =>
  about(
    "A bucket or counter that was unused for this long is deleted; 0s never deletes it.",
    durationOr(TWO_HOURS),
  );

const limitByLabelKey = () =>
  about(
    "Label each of whose values has a limit of its own; empty limits all flows together.",
    labelKey(text()),
  );

export const rateLimiterParameters = message("RateLimiter.Parameters", {
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
  max_idle_time: maxIdleTime(),
  lazy_sync: about(
    "Trades accuracy for speed: agents synchronise their counts only now and then.",
    part(lazySync),
  ),
  delay_initial_fill: about("Starts new buckets empty instead of full.", flag()),
});

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

export const rateLimiter = message("RateLimiter", {
  in_ports: required(ins(rateLimiterIns)),
  parameters: about(
    "Interval, key and behaviour of the buckets.",
    required(part(rateLimiterParameters)),
  ),
  selectors: selectors(),
  request_parameters: requests(),
  out_ports: outs(acceptOuts),
});
export type RateLimiter = ValueOf<typeof rateLimiter>;

export const concurrencyLimiterParameters = message("ConcurrencyLimiter.Parameters", {
  limit_by_label_key: limitByLabelKey(),
  max_inflight_duration: about(
    "A flow whose end was not reported counts as ended after this long.",
    required(duration({ positive: true })),
  ),
  max_idle_time: maxIdleTime(),
});

export const concurrencyLimiterIns = message("ConcurrencyLimiter.Ins", {
  max_concurrency: required(input("Maximum number of flows (or tokens) in flight.")),
  pass_through: input("Lets every flow pass while the input is valid and not 0."),
});

export const concurrencyLimiter = message("ConcurrencyLimiter", {
  in_ports: required(ins(concurrencyLimiterIns)),
  parameters: about(
    "Key and timeouts of the counters.",
    required(part(concurrencyLimiterParameters)),
  ),
  selectors: selectors(),
  request_parameters: requests(),
  out_ports: outs(acceptOuts),
});
export type ConcurrencyLimiter = ValueOf<typeof concurrencyLimiter>;

const samplerParameters = message("Sampler.Parameters", {
  session_label_key: about(
    "Label that identifies a session: flows with the same value get the same decision.",
    labelKey(text()),
  ),
  selectors: selectors(),
  denied_response_status_code: statusCode("Forbidden"),
  ramp_mode: about(
    "Accepts no flows instead of all flows while `accept_percentage` is invalid.",
    flag(),
  ),
});

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
