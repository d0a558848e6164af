// The engine that counts in process passes the suite of all engines.

import { LocalBuckets } from "#flow/limit/counters/local-buckets.ts";
import { testContext } from "../limit/setup.ts";
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
    adopt: (params) => buckets.adopt(params),
    advance: (ms) => clock.advance(ms),
  };
});
