// Sends capacity and fill amount to quota schedulers: rule in bucket.ts.

import { makeBucket } from "./bucket.ts";

export const makeQuotaScheduler = makeBucket("quota_scheduler");
