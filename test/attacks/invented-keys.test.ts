// A client that invents a key with each request, until the table of a limiter is full: new users keep their limit, and
// nobody is forgiven.

import assert from "node:assert/strict";
import { test } from "node:test";
import { passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";

/** The smallest number that the configuration takes. */
const MAX_KEYS = 1_024;
const CAPACITY = 3;
const NEW_USERS = 100;
const AT_ONCE = 50;

/** Buckets that take hours to fill: nothing that is used here becomes full again. */
const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: here }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 3600s, limit_by_label_key: http.request.header.user, on_failure: closed }
`;

test("new users keep their limit during a flood of invented keys and after it, and a blocked one stays blocked", async (t) => {
  const { address } = await standaloneProcess(t, {
    policies: { "limit.yaml": POLICY },
    env: { SVC_AGENT_FLOW_CONTROL_MAX_KEYS: String(MAX_KEYS) },
  });
  const passed = async (names: readonly string[]) => {
    let count = 0;
    for (let from = 0; from < names.length; from += AT_ONCE) {
      const some = names.slice(from, from + AT_ONCE);
      const answers = await Promise.all(some.map((user) => passes(address, "here", { user })));
      count += answers.filter((accepted) => accepted).length;
    }
    return count;
  };
  const named = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, at) => `${prefix}-${at}`);

  assert.equal(await passed(Array(CAPACITY + 1).fill("blocked")), CAPACITY);
  await passed(named("invented", MAX_KEYS));
  for (let round = 0; round < 4; round++) {
    await passed(named(`invented-${round}`, MAX_KEYS / 4));
    const news = named(`new-${round}`, NEW_USERS);
    assert.equal(await passed(news), NEW_USERS, `round ${round}`);
    // More flows than they have left: the limit holds, whether or not they were forgotten meanwhile.
    const more = await passed([...news, ...news, ...news]);
    assert.ok(more <= (CAPACITY - 1) * NEW_USERS, `${more} further flows in round ${round}`);
    assert.equal(await passed(["blocked"]), 0, `round ${round}`);
  }
  const { keys_overflow = 0 } = await counted(address, "sluice_anomalies_total", "kind");
  assert.ok(keys_overflow > MAX_KEYS, `${keys_overflow} keys were forgotten`);
});
