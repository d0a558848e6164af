// Keys of the process itself: health jobs, watchdog, crash reports.

import { anyText } from "../table/format.ts";
import {
  bool,
  count,
  duration,
  floats,
  group,
  number,
  object,
  ownTable,
  string,
  table,
  text,
  type Violation,
} from "../table/row.ts";

const jobConfig = table("JobConfig", "A periodic job.", {
  execution_period: duration(
    "10s",
    "Time between runs. With 0 or less the job never runs periodically.",
    { least: "any" },
  ),
  execution_timeout: duration("5s", "Time limit of one run. 0 means no limit."),
  initially_healthy: bool(false, "Report the job as healthy before its first run."),
});

export const jobGroupConfig = table("JobGroupConfig", "A group of jobs.", {
  blocking_execution: bool(false, "Run jobs one after the other."),
  worker_limit: count(
    0,
    "Maximum number of jobs that run at once. 0 means no limit. Ignored with blocking_execution.",
  ),
});

/** Liveness or readiness: a group of jobs, and the job that makes the checks of the group. */
export const healthConfig = group({
  scheduler: object(jobGroupConfig),
  service: object(jobConfig),
});

const adaptivePolicy = table(
  "AdaptivePolicy",
  "Reclaims memory when usage has taken up a share of the free memory.",
  {
    enabled: bool(false, "Use this policy."),
    factor: number("float64", 0.5, "Next threshold = usage + (limit - usage) * factor.", {
      min: 0,
      max: 1,
    }),
  },
);

const watermarksPolicy = table(
  "WatermarksPolicy",
  "Reclaims memory at fixed shares of the limit.",
  {
    enabled: bool(false, "Use this policy."),
    watermarks: floats(
      [0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99],
      { min: 0, max: 1 },
      "Increasing shares of the limit. Above the last one the policy stops acting, so the last one should be extreme.",
    ),
  },
);

const watchdogPolicyType = table(
  "WatchdogPolicyType",
  "How memory is watched. If both policies are enabled, watermarks take precedence.",
  {
    adaptive_policy: object(adaptivePolicy),
    watermarks_policy: object(watermarksPolicy),
  },
);

const heapConfig = table("HeapConfig", "Watching the heap.", {
  limit: number(
    "uint64",
    268_435_456,
    "Memory limit of the process in bytes. 0 means the default of 256 MB.",
  ),
  min_gogc: count(
    25,
    "Minimum garbage collection target in percent, which keeps collections from following each other too closely.",
    { max: 100 },
  ),
  adaptive_policy: object(adaptivePolicy),
  watermarks_policy: object(watermarksPolicy),
});

export const watchdogConfig = ownTable(
  "WatchdogConfig",
  "Watching memory: garbage is collected when usage reaches a threshold of a policy.",
  {
    cgroup: object(watchdogPolicyType),
    heap: object(heapConfig),
    heap_profile: bool(
      false,
      "When usage stays above a threshold although garbage was collected, sample allocations for 10 s into `heap.prof` under `profilers.profiles_path`, once in 10 min at most. Needs a policy.",
    ),
    job: object(jobConfig),
    system: object(watchdogPolicyType),
  },
);

function dsnIsUrl(crash: { readonly dsn: string }): readonly Violation[] {
  if (crash.dsn === "" || /^https?:\/\/./.test(crash.dsn)) return [];
  return [{ key: "dsn", wanted: "empty or an http(s) URL", got: "other text" }];
}

export const crashReportConfig = table(
  "CrashReportConfig",
  "Crash reports. None is sent without a dsn.",
  {
    attach_stack_trace: bool(true, "Send the stack with every event."),
    debug: bool(true, "Log what the reporter does."),
    disabled: bool(false, "Send nothing."),
    dsn: text(
      "Destination of reports, including credentials. If empty, nothing is sent; there is no built-in destination.",
      { secret: true },
    ),
    environment: string("production", anyText, "Name of the environment in reports."),
    sample_rate: number("float64", 1, "Share of events that are sent.", { min: 0, max: 1 }),
    traces_sample_rate: number("float64", 0.2, "Share of traces that are sent.", {
      min: 0,
      max: 1,
    }),
  },
  dsnIsUrl,
);
