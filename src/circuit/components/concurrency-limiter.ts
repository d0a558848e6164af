// Sends the concurrency to concurrency limiters: rule in concurrency.ts.

import { makeConcurrency } from "./concurrency.ts";

export const makeConcurrencyLimiter = makeConcurrency("concurrency_limiter");
