// The kinds of configuration that agents run: one row per kind, by its name in store keys.

import { classifier } from "./classifier.ts";
import { concurrencyLimiter } from "./concurrency-limiter.ts";
import { fluxMeter } from "./flux-meter.ts";
import { rateLimiter } from "./rate-limiter.ts";
import { sampler } from "./sampler.ts";
import type { FollowedKind } from "./wrapper.ts";

export const FOLLOWED_KINDS: ReadonlyMap<string, FollowedKind> = new Map([
  ["rate_limiter", rateLimiter],
  ["concurrency_limiter", concurrencyLimiter],
  ["sampler", sampler],
  ["classifiers", classifier],
  ["flux_meter", fluxMeter],
]);
