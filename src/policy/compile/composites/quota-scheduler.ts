// A quota scheduler: token buckets as those of a rate limiter, with a queue in front of them.

import { quotaScheduler as message, type QuotaScheduler } from "../../language/load.ts";
import type { Draft, Owner } from "../draft.ts";
import { BUCKET_PORTS, limiter } from "./limiter.ts";

export function quotaScheduler(component: QuotaScheduler, owner: Owner): Draft {
  const { limit_by_label_key: limitByLabelKey, on_failure: onFailure } = component.rate_limiter;
  return limiter(
    {
      kind: "quota_scheduler",
      component,
      message,
      ports: BUCKET_PORTS,
      counter: "workload_requests_total",
      onFailure,
      limitByLabelKey,
    },
    owner,
  );
}
