// Decides capacity and fill amount of quota schedulers: see bucket.ts.

import { makeBucket } from "./bucket.ts";

export const makeQuotaScheduler = makeBucket("quota_scheduler");
