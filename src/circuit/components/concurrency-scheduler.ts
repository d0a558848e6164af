// Decides the maximum concurrency of concurrency schedulers: see concurrency.ts.

import { makeConcurrency } from "./concurrency.ts";

export const makeConcurrencyScheduler = makeConcurrency("concurrency_scheduler");
