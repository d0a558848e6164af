// Shows in status and log the policies that have too many flows to settle. Their further flows are charged the estimates.

import { Episodes } from "#base/async/episodes.ts";
import { listed } from "#base/text/listed.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { FlowListener } from "#flow/observer.ts";

/** A policy has room again when none of its flows lacked any for so long. */
const QUIET_MS = 10_000;

/** Limit of policies that the status names. */
const MAX_NAMED = 20;

const FULL = "too many of its flows have not ended, so further ones are charged their estimates";

export function fullReservations(process: SluiceProcess): FlowListener {
  const { clock, health, scope } = process;
  const log = process.log.child("settlement");
  const status = health.root.at("system", "settlement");
  const show = () => {
    const names = [...episodes.open];
    if (names.length === 0) status.ok("all policies have room for the flows that they settle");
    else status.fail(listed(names, (name) => `policy ${name}: ${FULL}`, MAX_NAMED));
  };
  const episodes: Episodes = new Episodes({
    clock,
    quietMs: QUIET_MS,
    began(policy) {
      log.warn({ policy }, FULL);
      show();
    },
    ended(policy, estimates) {
      log.info({ policy, estimates }, "its flows are settled again");
      show();
    },
  });
  show();
  scope.add("settlement", async () => episodes.close());
  return {
    settled(component, how) {
      if (how === "no_room") episodes.happened(component.policyName);
    },
  };
}
