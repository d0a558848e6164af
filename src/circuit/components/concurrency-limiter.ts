// Decides the maximum concurrency of concurrency limiters: see concurrency.ts.

import { makeConcurrency } from "./concurrency.ts";

export const makeConcurrencyLimiter = makeConcurrency("concurrency_limiter");
