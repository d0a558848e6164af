// The engines that count in process pass the suites of all engines.

import { LocalBuckets } from "#flow/counters/local/local-buckets.ts";
import { LocalSlots } from "#flow/counters/local/local-slots.ts";
import { testContext } from "../limit/setup.ts";
import { slotSuite } from "./slot-suite.ts";
import { bucketSuite } from "./suite.ts";

bucketSuite("local", async () => {
  const context = testContext();
  const buckets = new LocalBuckets(context, "");
  const { clock } = context;
  return {
    take: async (value, want, params) => ({ ...buckets.take(value, want, params, clock.now()) }),
    async giveBack(value, amount, params) {
      buckets.giveBack(value, amount, "", params);
    },
    async charge(value, amount, params) {
      buckets.charge(value, amount, "", params);
    },
    adopt: (params) => buckets.adopt(params),
    advance: (ms) => clock.advance(ms),
  };
});

slotSuite("local", async () => {
  const context = testContext();
  const slots = new LocalSlots(context);
  const { clock } = context;
  return {
    take: async (value, want, params) => ({ ...slots.take(value, want, params, clock.now()) }),
    end: async (value, id, params) => slots.giveBack(value, 0, id, params),
    advance: (ms) => clock.advance(ms),
  };
});
