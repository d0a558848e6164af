// The kinds of configuration that agents run: one row per kind, by its name in store keys.

import { classifier } from "./kinds/classifier.ts";
import { concurrencyLimiter, concurrencyScheduler } from "./kinds/concurrency-limiter.ts";
import { fluxMeter } from "./kinds/flux-meter.ts";
import { loadScheduler } from "./kinds/load-scheduler.ts";
import { quotaScheduler, rateLimiter } from "./kinds/rate-limiter.ts";
import { sampler } from "./kinds/sampler.ts";
import type { FollowedKind } from "./kinds/wrapper.ts";

export const FOLLOWED_KINDS: ReadonlyMap<string, FollowedKind> = new Map([
  ["rate_limiter", rateLimiter],
  ["concurrency_limiter", concurrencyLimiter],
  ["sampler", sampler],
  ["quota_scheduler", quotaScheduler],
  ["concurrency_scheduler", concurrencyScheduler],
  ["load_scheduler", loadScheduler],
  ["classifiers", classifier],
  ["flux_meter", fluxMeter],
]);
