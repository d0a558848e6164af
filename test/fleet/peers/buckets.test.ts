// Agents that count for each other pass the suite of all engines, alone and as three of which each is asked in turn.

import { after } from "node:test";
import { bucketSuite } from "../../flow/counters/suite.ts";
import { Network } from "./network.ts";

const here = { after: (end: () => void) => after(end) };

for (const count of [1, 3]) {
  bucketSuite(`peers, ${count} of them`, async () => {
    const network = new Network(here);
    const agents = await network.joined(count);
    let asked = 0;
    const next = () => {
      const agent = agents[asked++ % count];
      if (agent === undefined) throw new Error("no agents");
      return agent;
    };
    return {
      take: (value, want, params) => next().take(value, want, params),
      async giveBack(value, amount, params) {
        next().buckets.giveBack(value, amount, "", params);
        await network.settle();
      },
      adopt: (params) => {
        for (const { buckets } of agents) buckets.adopt(params);
      },
      advance: (ms) => network.clock.advance(ms),
    };
  });
}
