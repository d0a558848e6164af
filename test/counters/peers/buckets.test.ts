// Agents that count for each other pass the suite of all engines: alone, as three of which each is asked in turn, and as
// two of which the one is asked that leases the key of the other.

import { after } from "node:test";
import { bucketSuite } from "../../flow/counters/suite.ts";
import { Network } from "./network.ts";

const here = { after: (end: () => void) => after(end) };

const CASES = [
  { count: 1, leases: false },
  { count: 3, leases: false },
  { count: 2, leases: true },
] as const;

for (const { count, leases } of CASES) {
  bucketSuite(`peers, ${count} of them, leases: ${leases}`, async () => {
    const network = new Network(here, { leases });
    const agents = await network.joined(count);
    let asked = 0;
    const next = (value: string | undefined) => {
      const agent = leases ? agents.find((each) => !each.owns(value)) : agents[asked++ % count];
      if (agent === undefined) throw new Error("no agents");
      return agent;
    };
    return {
      async take(value, want, params) {
        // The owner of a count without a key depends on the limiter, which agents know with its numbers.
        for (const { buckets } of agents) buckets.adopt(params);
        const answer = await next(value).take(value, want, params);
        // Leases are renewed in the background.
        await network.settle();
        return answer;
      },
      async giveBack(value, amount, params) {
        next(value).buckets.giveBack(value, amount, "", params);
        await network.settle();
      },
      async charge(value, amount, params) {
        next(value).buckets.charge(value, amount, "", params);
        await network.settle();
      },
      adopt: (params) => {
        for (const { buckets } of agents) buckets.adopt(params);
      },
      // Messages that are sent in the background arrive meanwhile.
      advance: (ms) => network.passSlowly(ms),
    };
  });
}
