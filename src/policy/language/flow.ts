// Components that agents carry out: limiters, samplers and ramps. Schedulers and load control build on them.

import {
  about,
  configKey,
  deprecated,
  duration,
  durationOr,
  filledList,
  flag,
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
  enabled: about("Whether agents count on their own between syncs.", flag()),
  num_sync: about("Syncs in each interval.", uint32({ default: 4, above: 0 })),
});

const maxIdleTime = () =>
  about(
    "A bucket or counter that nobody used for so long is forgotten; 0s keeps it for good.",
    durationOr(TWO_HOURS),
  );

const limitByLabelKey = () =>
  about("Label whose every value is limited by itself; empty limits all flows together.", text());

export const rateLimiterParameters = message("RateLimiter.Parameters", {
  label_key: about("Older name of `limit_by_label_key`.", deprecated("limit_by_label_key", text())),
  limit_by_label_key: limitByLabelKey(),
  interval: about(
    "Time in which `fill_amount` tokens come.",
    required(duration({ positive: true })),
  ),
  continuous_fill: about(
    "Tokens trickle in over the interval; false fills once for each interval.",
    flag(true),
  ),
  max_idle_time: maxIdleTime(),
  lazy_sync: about(
    "Lets agents decide from their own counts between syncs: faster, less exact.",
    part(lazySync),
  ),
  delay_initial_fill: about("A new bucket starts empty instead of full.", flag()),
});

export const rateLimiterIns = message("RateLimiter.Ins", {
  bucket_capacity: required(input("Tokens that a bucket holds at most.")),
  fill_amount: required(input("Tokens that come in each interval.")),
  pass_through: input("Lets every flow pass while valid and not 0."),
});

export const acceptOuts = message("RateLimiter.Outs", {
  accept_percentage: output("Share of flows that were accepted lately, in percent."),
});

const requestParameters = message("RateLimiter.RequestParameters", {
  tokens_label_key: about("Label that says how many tokens a flow takes; without it, one.", text()),
  denied_response_status_code: statusCode("TooManyRequests"),
});
const requests = () => about("How requests are counted and refused.", part(requestParameters));

export const rateLimiter = message("RateLimiter", {
  in_ports: required(ins(rateLimiterIns)),
  parameters: about("How its buckets work.", required(part(rateLimiterParameters))),
  selectors: selectors(),
  request_parameters: requests(),
  out_ports: outs(acceptOuts),
});
export type RateLimiter = ValueOf<typeof rateLimiter>;

export const concurrencyLimiterParameters = message("ConcurrencyLimiter.Parameters", {
  limit_by_label_key: limitByLabelKey(),
  max_inflight_duration: about(
    "A flow whose end was not told counts as ended after so long.",
    required(duration({ positive: true })),
  ),
  max_idle_time: maxIdleTime(),
});

export const concurrencyLimiterIns = message("ConcurrencyLimiter.Ins", {
  max_concurrency: required(input("Flows (or tokens) that may be in flight at once.")),
  pass_through: input("Lets every flow pass while valid and not 0."),
});

export const concurrencyLimiter = message("ConcurrencyLimiter", {
  in_ports: required(ins(concurrencyLimiterIns)),
  parameters: about("How it counts.", required(part(concurrencyLimiterParameters))),
  selectors: selectors(),
  request_parameters: requests(),
  out_ports: outs(acceptOuts),
});
export type ConcurrencyLimiter = ValueOf<typeof concurrencyLimiter>;

const samplerParameters = message("Sampler.Parameters", {
  session_label_key: about(
    "Label whose value decides: the same value is always accepted or always refused.",
    text(),
  ),
  selectors: selectors(),
  denied_response_status_code: statusCode("Forbidden"),
  ramp_mode: about("Without a valid number nothing is accepted, instead of everything.", flag()),
});

const passThrough = () =>
  ({
    pass_through_label_values: about(
      "Values of the session label that are always accepted.",
      list(text()),
    ),
    pass_through_label_values_config_key: about(
      "Name under which dynamic configuration overrides `pass_through_label_values`.",
      configKey("texts"),
    ),
  }) as const;

export const sampler = message("Sampler", {
  in_ports: ins(
    message("Sampler.Ins", {
      accept_percentage: input("Share of flows that is accepted, in percent."),
    }),
  ),
  parameters: about("Which flows, and how they are told apart.", required(part(samplerParameters))),
  ...passThrough(),
});
export type Sampler = ValueOf<typeof sampler>;

const rampStep = message("LoadRamp.Parameters.Step", {
  target_accept_percentage: about(
    "Share that is accepted at the end of the step, in percent.",
    number({ min: 0, max: 100 }),
  ),
  duration: about("How long the share takes to get there.", required(duration())),
});

export const loadRamp = message("LoadRamp", {
  in_ports: ins(
    message("LoadRamp.Ins", {
      forward: input("Climbs while valid and not 0."),
      backward: input("Falls back while valid and not 0."),
      reset: input("Goes to the start at once; wins over both."),
    }),
  ),
  out_ports: outs(
    message("LoadRamp.Outs", {
      accept_percentage: output("Share that is accepted now, in percent."),
      at_start: output("1 at the start, else 0."),
      at_end: output("1 at the end, else 0."),
    }),
  ),
  parameters: about(
    "The sampler and the way up.",
    required(
      part(
        message("LoadRamp.Parameters", {
          sampler: about(
            "The sampler that carries it out, always in ramp mode.",
            required(part(samplerParameters)),
          ),
          steps: about("Targets, one after the other.", filledList(part(rampStep))),
        }),
      ),
    ),
  ),
  ...passThrough(),
});
export type LoadRamp = ValueOf<typeof loadRamp>;
