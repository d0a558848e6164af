// A concurrency scheduler: a bound on flows in flight as that of a concurrency limiter, with a queue in front.

import { type ConcurrencyScheduler, concurrencyScheduler as message } from "../../language/load.ts";
import type { Draft, Owner } from "../draft.ts";
import { CONCURRENCY_PORTS, limiter, slotPorts } from "./limiter.ts";

export function concurrencyScheduler(component: ConcurrencyScheduler, owner: Owner): Draft {
  const {
    limit_by_label_key: limitByLabelKey,
    on_failure: onFailure,
    adaptive,
  } = component.concurrency_limiter;
  return limiter(
    {
      kind: "concurrency_scheduler",
      component,
      message,
      inPorts: slotPorts(component.in_ports, adaptive),
      ports: CONCURRENCY_PORTS,
      renamed: { max_concurrency: "max_capacity" },
      counter: "workload_requests_total",
      onFailure,
      limitByLabelKey,
    },
    owner,
  );
}
