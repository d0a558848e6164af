// The kinds of configuration that agents run: one row per kind, by its name in store keys.

import { classifier } from "./kinds/classifier.ts";
import { concurrencyLimiter } from "./kinds/concurrency-limiter.ts";
import { fluxMeter } from "./kinds/flux-meter.ts";
import { rateLimiter } from "./kinds/rate-limiter.ts";
import { sampler } from "./kinds/sampler.ts";
import type { FollowedKind } from "./kinds/wrapper.ts";

export const FOLLOWED_KINDS: ReadonlyMap<string, FollowedKind> = new Map([
  ["rate_limiter", rateLimiter],
  ["concurrency_limiter", concurrencyLimiter],
  ["sampler", sampler],
  ["classifiers", classifier],
  ["flux_meter", fluxMeter],
]);
