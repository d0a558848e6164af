// The policy service of a controller that may stand by. While it does not lead, calls fail with the name of the leader.

import type { PolicyOperations } from "#api/policies.ts";
import { Fault } from "#base/fault.ts";
import type { CandidateInfo } from "./election-watch.ts";

/**
 * `leading` returns the service of the leading controller, or throws the Fault for callers. `writing` throws if it is known
 * that writes would fail.
 */
export function policiesOf(leading: () => PolicyOperations, writing: () => void): PolicyOperations {
  const changing = () => {
    const policies = leading();
    writing();
    return policies;
  };
  return {
    list: () => leading().list(),
    get: (name) => leading().get(name),
    upsert: async (name, text, peer) => changing().upsert(name, text, peer),
    remove: async (name, peer) => changing().remove(name, peer),
    validate: async (name, text) => leading().validate(name, text),
    graph: (name, format, depth) => leading().graph(name, format, depth),
    dynamicConfig: (name) => leading().dynamicConfig(name),
    configure: async (name, config, peer) => changing().configure(name, config, peer),
    decisions: async (kind) => leading().decisions(kind),
  };
}

/** The reply of a controller that does not lead. */
export function standingBy(leader: CandidateInfo | undefined): Fault {
  const where = leader?.address === undefined ? "" : `, at ${leader.address}`;
  const who =
    leader === undefined ? "no controller leads at present" : `${leader.name} leads${where}`;
  return new Fault("UNAVAILABLE", `this controller stands by and does not run policies: ${who}`);
}

/** The reply of a controller that does not lead and cannot find out who does, because the store is unavailable. */
export function noLeaderKnown(): Fault {
  return withoutStore("no controller is known to lead");
}

/** The reply to a change while the leading controller cannot use the store. */
export function storeIsAway(): Fault {
  return withoutStore("nothing can be changed");
}

function withoutStore(so: string): Fault {
  const message = `the store cannot be used at present, so ${so}: /v1/status says why`;
  return new Fault("UNAVAILABLE", message);
}
