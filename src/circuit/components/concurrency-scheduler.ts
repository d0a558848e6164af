// Sends the concurrency to concurrency schedulers: rule in concurrency.ts.

import { makeConcurrency } from "./concurrency.ts";

export const makeConcurrencyScheduler = makeConcurrency("concurrency_scheduler");
