// Sends capacity and fill amount to rate limiters: rule in bucket.ts.

import { makeBucket } from "./bucket.ts";

export const makeRateLimiter = makeBucket("rate_limiter");
