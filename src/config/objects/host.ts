// Keys of the process itself: health jobs, watchdog, crash reports.

import { anyText } from "../format.ts";
import {
  bool,
  type Complaint,
  duration,
  floats,
  group,
  number,
  object,
  string,
  table,
} from "../row.ts";

export const jobConfig = table("JobConfig", "A job that runs again and again.", {
  execution_period: duration(
    "10s",
    "Time between runs. Zero or negative: it never runs periodically.",
    { least: "any" },
  ),
  execution_timeout: duration("5s", "Time one run may take. 0 means no limit."),
  initially_healthy: bool(false, "Count as healthy before the first run."),
});

export const jobGroupConfig = table("JobGroupConfig", "Jobs that run together.", {
  blocking_execution: bool(false, "Run jobs one after the other."),
  worker_limit: number(
    "int64",
    0,
    "Jobs that run at once. 0 means no limit; ignored with blocking_execution.",
    { min: 0 },
  ),
});

/** Liveness and readiness: a group of jobs and the job that stands for the group. */
export const healthConfig = group({
  scheduler: object(jobGroupConfig),
  service: object(jobConfig),
});

export const adaptivePolicy = table(
  "AdaptivePolicy",
  "Reclaims memory when usage has eaten a share of what was free.",
  {
    enabled: bool(false, "Use this policy."),
    factor: number("float64", 0.5, "Next threshold = usage + (limit - usage) * factor.", {
      min: 0,
      max: 1,
    }),
  },
);

export const watermarksPolicy = table(
  "WatermarksPolicy",
  "Reclaims memory at fixed shares of the limit.",
  {
    enabled: bool(false, "Use this policy."),
    watermarks: floats(
      [0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99],
      { min: 0, max: 1 },
      "Increasing shares of the limit. Past the last one the policy disarms, so that one should be extreme.",
    ),
  },
);

export const watchdogPolicyType = table(
  "WatchdogPolicyType",
  "How memory is watched. With both policies, watermarks win.",
  {
    adaptive_policy: object(adaptivePolicy),
    watermarks_policy: object(watermarksPolicy),
  },
);

export const heapConfig = table("HeapConfig", "Watching the heap.", {
  limit: number(
    "uint64",
    268_435_456,
    "Bytes of memory that the process may use. 0 means the default of 256 MB.",
  ),
  min_gogc: number(
    "int64",
    25,
    "Least collection target in percent, so that collections do not follow each other too closely.",
    { min: 0, max: 100 },
  ),
  adaptive_policy: object(adaptivePolicy),
  watermarks_policy: object(watermarksPolicy),
});

export const watchdogConfig = table("WatchdogConfig", "Watches memory.", {
  cgroup: object(watchdogPolicyType),
  heap: object(heapConfig),
  job: object(jobConfig),
  system: object(watchdogPolicyType),
});

function dsnIsUrl(crash: { readonly dsn: string }): readonly Complaint[] {
  if (crash.dsn === "" || /^https?:\/\/./.test(crash.dsn)) return [];
  return [{ key: "dsn", wanted: "empty or an http(s) URL", got: "other text" }];
}

export const crashReportConfig = table(
  "CrashReportConfig",
  "Reports of crashes. None is sent without a dsn.",
  {
    attach_stack_trace: bool(true, "Send the stack with every event."),
    debug: bool(true, "Print what the reporter does."),
    disabled: bool(false, "Send nothing."),
    dsn: string(
      "",
      anyText,
      "Where reports go, credentials included. Empty sends nothing; there is no built-in destination.",
      { secret: true },
    ),
    environment: string("production", anyText, "Name of the environment in reports."),
    sample_rate: number("float64", 1, "Share of events that is sent.", { min: 0, max: 1 }),
    traces_sample_rate: number("float64", 0.2, "Share of traces that is sent.", { min: 0, max: 1 }),
  },
  dsnIsUrl,
);
