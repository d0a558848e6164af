// A rate limiter: token buckets whose capacity and fill amount the circuit decides.

import { rateLimiter as message, type RateLimiter } from "../../language/flow.ts";
import type { Draft, Owner } from "../draft.ts";
import { BUCKET_PORTS, limiter } from "./limiter.ts";

export function rateLimiter(component: RateLimiter, owner: Owner): Draft {
  const { limit_by_label_key: limitByLabelKey, on_failure: onFailure } = component.parameters;
  return limiter(
    {
      kind: "rate_limiter",
      component,
      message,
      ports: BUCKET_PORTS,
      counter: "rate_limiter_counter_total",
      onFailure,
      limitByLabelKey,
    },
    owner,
  );
}
