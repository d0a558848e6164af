// Shows in status and log the limiters most of whose concurrency slots are not given back. Either callers do not end their
// flows, or no report of the end arrives. Each slot then stays taken for `max_inflight_duration`.

import type { Clock } from "#base/clock.ts";
import { listed } from "#base/text/listed.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { SlotRef, Verdict } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";

/** Slots taken in one window are compared with those given back in it and in the next, so that flows have time to end. */
const WINDOW_MS = 60_000;
/** Fewer slots in one window are not judged. */
const MIN_SLOTS = 10;
/** Limit of limiters that the status names. */
const MAX_NAMED = 20;

/** Slots of one limiter, in this window and in the one before. */
interface Counts {
  taken: number;
  takenBefore: number;
  returned: number;
  returnedBefore: number;
  lost: boolean;
}

export class LostEnds {
  /** By policy and component id. */
  readonly #policies = new Map<string, Map<string, Counts>>();
  readonly #process: Pick<SluiceProcess, "clock" | "health" | "log">;
  #disarm: () => void;

  constructor(process: Pick<SluiceProcess, "clock" | "health" | "log" | "scope">) {
    this.#process = process;
    const arm = (clock: Clock) =>
      clock.alarm(WINDOW_MS, () => {
        this.#disarm = arm(clock);
        this.#compare();
      });
    this.#disarm = arm(process.clock);
    process.scope.add("lost ends", async () => this.#disarm());
    this.#show([]);
  }

  readonly decided = (_flow: unknown, { held, decisions }: Verdict): void => {
    if (held === undefined) return;
    for (const { component, grantId, detail } of decisions) {
      if (grantId !== undefined && "requestId" in detail) this.#of(component).taken++;
    }
  };

  /** Counts the slots whose end is reported to this controller. */
  watch(controller: Pick<FlowController, "end">): void {
    const { end } = controller;
    controller.end = (slots) => {
      for (const slot of slots) {
        const counts = this.#policies.get(slot.policyName)?.get(slot.componentId);
        if (counts !== undefined) counts.returned++;
      }
      return end(slots);
    };
  }

  #of({ policyName, componentId }: Pick<SlotRef, "policyName" | "componentId">): Counts {
    const components = this.#policies.get(policyName) ?? new Map<string, Counts>();
    this.#policies.set(policyName, components);
    const counts = components.get(componentId) ?? newCounts();
    components.set(componentId, counts);
    return counts;
  }

  #compare(): void {
    const log = this.#process.log.child("flow-ends");
    const lost: string[] = [];
    for (const [policy, components] of this.#policies) {
      for (const [component, counts] of components) {
        this.#judge(counts, (slots) => log.warn({ policy, component, ...slots }, LOST));
        if (counts.lost) lost.push(`policy ${policy}, component ${component}`);
        if (counts.taken + counts.takenBefore === 0) components.delete(component);
        counts.takenBefore = counts.taken;
        counts.returnedBefore = counts.returned;
        counts.taken = 0;
        counts.returned = 0;
      }
      if (components.size === 0) this.#policies.delete(policy);
    }
    this.#show(lost);
  }

  #judge(counts: Counts, warn: (slots: { taken: number; returned: number }) => void): void {
    const { takenBefore: taken } = counts;
    if (taken < MIN_SLOTS && !counts.lost) return;
    const returned = counts.returnedBefore + counts.returned;
    const lost = 2 * returned < taken;
    if (lost && !counts.lost) warn({ taken, returned });
    counts.lost = lost;
  }

  #show(lost: readonly string[]): void {
    const status = this.#process.health.root.at("system", "flow_ends");
    if (lost.length === 0) status.ok("the ends of flows that take concurrency slots are reported");
    else status.fail(`${LOST}: ${listed(lost, String, MAX_NAMED)}`);
  }
}

function newCounts(): Counts {
  return { taken: 0, takenBefore: 0, returned: 0, returnedBefore: 0, lost: false };
}

const LOST =
  "most concurrency slots were not given back within two minutes. Unless these flows last that long, report their ends (by FlowEnd, an access log or spans): until then each slot stays taken for max_inflight_duration";
