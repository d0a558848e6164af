// Agents that count for each other: cut off from each other, joined by others, and restarted.

import { setTimeout as sleep } from "node:timers/promises";
import { startProxy } from "../../../kit/etcd/proxy.ts";
import { cutPorts } from "../../../kit/faults/own-network.ts";
import type { SluiceChild } from "../../../kit/servers/sluice.ts";
import { countTogether, stats } from "../fleet.ts";
import type { Row } from "../row.ts";

const LEASE_MS = 2_000;

export const PEERS: readonly Row[] = [
  {
    fault: "three agents cannot reach each other for three leases, and all of them reach etcd",
    family: "peers",
    fleet: { engine: "peers", env: { COUNTERS_PEERS_TIMEOUT: "1s" } },
    bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 2 },
    expected:
      "Each agent decides about the keys that it counts. For those of others `on_failure` answers.",
    checks: 200,
    network: true,
    async happens(fleet, load) {
      const heal = cutPorts(await countersPorts(fleet.agents));
      await load.told("rate", "onFailure");
      await Promise.all([sleep(3 * LEASE_MS), load.more(60)]);
      heal();
      await fleet.ready();
      await load.more(20);
    },
  },
  {
    fault: "one of two agents reaches neither the other one nor etcd until each counts for itself",
    family: "peers",
    fleet: { engine: "peers", agents: 1, env: { COUNTERS_PEERS_TIMEOUT: "1s" } },
    sides: 2,
    bounds: { rate: 1, filling: 1, slots: 1, "rate-local": 2 },
    expected:
      "`on_failure` answers for the keys of the other side, until the side that reaches etcd counts them as well. What both counted is added up when they meet.",
    checks: 200,
    network: true,
    async prepare(fleet) {
      const way = await startProxy(fleet.test, fleet.etcd.endpoints[0] ?? "");
      fleet.proxies.push(way);
      await fleet.join({ ETCD_ENDPOINTS: JSON.stringify([way.endpoint]) });
    },
    async happens(fleet, load) {
      const [way] = fleet.proxies;
      const heal = cutPorts(await countersPorts(fleet.agents));
      way?.swallow();
      await load.told("rate", "onFailure");
      await countTogether(fleet.agents.slice(0, 1));
      await load.more(60);
      heal();
      way?.open();
      await fleet.ready();
      await load.more(20);
    },
  },
  {
    fault: "two agents join, one after the other",
    family: "peers",
    fleet: { engine: "peers", agents: 2 },
    bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 0 },
    expected: "Nobody notices: counts are handed over before anybody else goes on.",
    checks: 200,
    async happens(fleet, load) {
      await fleet.join();
      await load.more(20);
      await fleet.join();
    },
  },
  {
    fault: "three agents are restarted in turn (SIGTERM)",
    family: "peers",
    fleet: { engine: "peers" },
    bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 0 },
    expected: "Callers turn to another agent. Counts and slots are handed over.",
    checks: 200,
    quick: true,
    async happens(fleet, load) {
      for (let n = 0; n < 3; n++) {
        // Its callers meet it while it drains, and after.
        await fleet.stop(fleet.agents[0]);
        fleet.agents.shift();
        await fleet.join();
        await load.more(10);
      }
    },
  },
];

/** Ports at which the agents are asked, and probed, by each other. */
async function countersPorts(agents: readonly SluiceChild[]): Promise<readonly number[]> {
  const found = await Promise.all(agents.map(stats));
  return [...new Set(found.flatMap(({ members }) => members.map(portOf)))];
}

function portOf({ address }: { readonly address: string }): number {
  return Number(address.slice(address.lastIndexOf(":") + 1));
}
