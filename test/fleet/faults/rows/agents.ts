// Agents that are killed, frozen, or have a wrong clock.

import assert from "node:assert/strict";
import { wrongClock } from "../../../kit/faults/wrong-clock.ts";
import { call } from "../../../kit/sluice/check.ts";
import { counted } from "../../../kit/sluice/scrape.ts";
import { until } from "../../../kit/until.ts";
import { countTogether, type Fleet } from "../fleet.ts";
import type { Load } from "../load.ts";
import type { Row } from "../row.ts";

export const AGENTS: readonly Row[] = [
  {
    fault: "an agent is killed while it holds leases of tokens and its flows hold slots",
    family: "agents",
    fleet: { engine: "redis" },
    bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 0 },
    expected:
      "Callers of this agent get no answer until they turn to another one. The tokens that it had leased are lost, its flows end at other agents.",
    checks: 200,
    quick: true,
    async happens(fleet, load) {
      const address = fleet.agents[0]?.address() ?? "";
      const fromLeases = async () =>
        (await counted(address, "sluice_counter_takes_total", "result"))["granted"] ?? 0;
      const before = await fromLeases();
      await until("it spends leased tokens", async () => (await fromLeases()) > before);
      await load.inFlight(3);
      await loseFirst(fleet, load);
      await fleet.join();
    },
  },
  {
    fault: "an agent that counts for others is killed while its flows hold slots",
    family: "agents",
    fleet: { engine: "peers", env: { COUNTERS_PEERS_TIMEOUT: "1s" } },
    // With `local` each of the others counts alone until the next owner is known: three agents, three capacities.
    bounds: { rate: 1, filling: 1, slots: 1, "rate-local": 3 },
    expected:
      "Callers of this agent get no answer. For its keys `on_failure` answers until others count them, then they start anew: it had the only copy.",
    checks: 200,
    async happens(fleet, load) {
      await loseFirst(fleet, load);
      await fleet.ready();
      await load.more(20);
      await fleet.join();
    },
  },
  {
    fault: "an agent that counts for others is killed, with two copies of each bucket",
    family: "agents",
    fleet: {
      engine: "peers",
      env: {
        COUNTERS_PEERS_TIMEOUT: "1s",
        DIST_CACHE_REPLICA_COUNT: "2",
        DIST_CACHE_SYNC_REPLICATION: "true",
      },
    },
    // Slots have no copies.
    bounds: { rate: 0, filling: 0, slots: 1 },
    expected:
      "Callers of this agent get no answer. For its keys `on_failure` answers until others count them, from the copies. Slots are not copied.",
    checks: 200,
    async happens(fleet, load) {
      await loseFirst(fleet, load);
      await fleet.ready();
    },
  },
  {
    fault: "an agent that counts for others is frozen until others count its keys",
    family: "agents",
    fleet: { engine: "peers", env: { COUNTERS_PEERS_TIMEOUT: "1s" } },
    bounds: { rate: 1, filling: 1, slots: 1 },
    expected:
      "Callers of this agent wait. For its keys `on_failure` answers until it is no member any more, then others count them anew. When it goes on, what both counted is added up.",
    checks: 200,
    async happens(fleet, load) {
      const [frozen, ...others] = fleet.agents;
      await frozen?.freeze();
      await load.told("rate", "onFailure");
      await countTogether(others);
      await load.more(30);
      frozen?.kill("SIGCONT");
      await fleet.ready();
      await load.more(30);
    },
  },
  ...(["redis", "peers"] as const).map(
    (engine): Row => ({
      fault: `the clock of one agent is two minutes ahead, that of another two minutes behind (${engine})`,
      family: "agents",
      fleet: { engine, agents: 1 },
      bounds: { rate: 0, filling: 0, slots: 0, "rate-local": 0 },
      expected: "Nobody notices: clocks of agents do not matter.",
      checks: 200,
      async happens(fleet, load) {
        for (const offset of [120, -120]) {
          const signed = `${offset > 0 ? "+" : ""}${offset}s`;
          const agent = await fleet.join({}, wrongClock(signed));
          const off = (await wallOf(agent)) - Date.now() / 1_000;
          assert.ok(Math.abs(off - offset) < 60, `${off} s off`);
        }
        await load.more(80);
        await fleet.edit();
      },
    }),
  ),
];

/** Kills the first agent and waits until its callers noticed it, then lets no caller ask it any more. */
async function loseFirst(fleet: Fleet, load: Load): Promise<void> {
  await fleet.kill(fleet.agents[0]);
  await load.told("slots", "unanswered");
  await load.more(60);
  fleet.agents.shift();
}

/** The time of day that an agent goes by, in Unix seconds. */
async function wallOf(agent: Fleet["agents"][number]): Promise<number> {
  const check = { control_point: "none", request: { method: "GET", path: "/" } };
  const { body } = await call(agent.address(), "POST", "/v1/flowcontrol/checkhttp", check);
  return Date.parse(JSON.parse(body).check_response.start) / 1_000;
}
