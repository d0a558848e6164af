// A concurrency limiter: the circuit decides how many flows may be in flight at once.

import { type ConcurrencyLimiter, concurrencyLimiter as message } from "../../language/flow.ts";
import type { Draft, Owner } from "../draft.ts";
import { CONCURRENCY_PORTS, limiter, slotPorts } from "./limiter.ts";

export function concurrencyLimiter(component: ConcurrencyLimiter, owner: Owner): Draft {
  const {
    limit_by_label_key: limitByLabelKey,
    on_failure: onFailure,
    adaptive,
  } = component.parameters;
  return limiter(
    {
      kind: "concurrency_limiter",
      component,
      message,
      inPorts: slotPorts(component.in_ports, adaptive),
      ports: CONCURRENCY_PORTS,
      counter: "concurrency_limiter_counter_total",
      onFailure,
      limitByLabelKey,
    },
    owner,
  );
}
