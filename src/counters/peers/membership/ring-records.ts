// Reads the members of a ring from the records of agents. A record without a usable address affects only its own agent.

import type { Log } from "#base/log.ts";
import { splitHostPort } from "#base/net/host-port.ts";
import type { Member } from "#fleet/members.ts";
import { COUNTER_SERVICES } from "../../group-engines.ts";
import type { RingMember } from "./ring.ts";

/** Services in the records of agents. */
export const COUNTERS = COUNTER_SERVICES.peers;
export const PROBES = "sluice-counters-probes";

/** Host names, and IP addresses with zones. Host names in clusters may contain underscores. */
const HOST = /^[\w.:%-]{1,255}$/;
const PORT = /^\d{1,5}$/;

export class RingRecords {
  readonly #log: Log;
  /** Log lines about the current records, so that each is written once. */
  #reported: ReadonlySet<string> = new Set();

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * The agents that own keys. Agents with another engine or of other implementations own none. Neither does an agent
   * whose address for counters is unusable. An agent whose address for probes is unusable is not probed. Both are logged.
   */
  membersOf(list: readonly Member[]): readonly RingMember[] {
    const reported = new Set<string>();
    const members = list.flatMap((member): RingMember[] => {
      const { address: name, id, services } = member;
      if (id === "" || services[COUNTERS] === undefined) return [];
      const address = this.#addressOf(member, COUNTERS, "it does not count", reported);
      if (address === undefined) return [];
      const probe = this.#addressOf(member, PROBES, "it is not probed", reported);
      return [{ name, id, address, probe }];
    });
    this.#reported = reported;
    return members;
  }

  #addressOf(
    { address: name, services }: Member,
    service: string,
    consequence: string,
    reported: Set<string>,
  ): string | undefined {
    const address = services[service];
    if (address === undefined || isHostPort(address)) return address;
    const got = JSON.stringify(address.slice(0, 100));
    const line = `record of peer ${name}: ${consequence}: wanted host:port as ${service}, got ${got}`;
    if (!this.#reported.has(line)) this.#log.warn({ peer: name }, line);
    reported.add(line);
    return undefined;
  }
}

function isHostPort(text: string): boolean {
  const { host, port } = splitHostPort(text);
  return HOST.test(host) && PORT.test(port) && Number(port) >= 1 && Number(port) <= 65_535;
}
