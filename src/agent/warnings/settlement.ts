// Tells in status and log which policies have too many flows to settle: further flows of theirs are charged their estimates.

import { Episodes } from "#base/async/episodes.ts";
import { listed } from "#base/text/listed.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { Observer } from "#flow/observer.ts";

/** A policy has room again when no flow of it lacked any for so long. */
const QUIET_MS = 10_000;

/** Policies that the status names. */
const MOST_NAMES = 20;

const FULL = "too many of its flows have not ended, so further ones are charged their estimates";

/** Returns the observer with this added. */
export function tellFullReservations(process: SluiceProcess, observer: Observer): Observer {
  const { clock, health, scope } = process;
  const log = process.log.child("settlement");
  const status = health.root.at("system", "settlement");
  const show = () => {
    const names = [...episodes.open];
    if (names.length === 0) status.ok("all policies have room for the flows that they settle");
    else status.fail(listed(names, (name) => `policy ${name}: ${FULL}`, MOST_NAMES));
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
    ...observer,
    settled(component, how, difference) {
      observer.settled(component, how, difference);
      if (how === "no_room") episodes.happened(component.policyName);
    },
  };
}
