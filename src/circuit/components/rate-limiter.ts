// Decides capacity and fill amount of rate limiters: see bucket.ts.

import { makeBucket } from "./bucket.ts";

export const makeRateLimiter = makeBucket("rate_limiter");
