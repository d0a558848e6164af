// Many users, and policies edited under load, through a real Envoy. The client counts the requests that pass and
// compares the number with what token buckets may grant.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, http2 } from "../kit/clients/http.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

const perUser = (capacity: number, fill: number) => `
circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: ingress }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${capacity} } }
            fill_amount: { constant_signal: { value: ${fill} } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.x_user }
`;

const FILE = "per-user.yaml";

interface House {
  readonly client: Client;
  readonly policies: string;
}

async function house(test: TestContext, policy: string): Promise<House> {
  const sluice = await standaloneProcess(test, { policies: { [FILE]: policy } });
  const envoy = await startEnvoy(test, {
    agent: sluice.address,
    service: await startService(test),
    // These tests count requests. They do not measure latency on a machine that runs everything at once.
    edit: (bootstrap) => bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s"),
  });
  return { client: http2(test, envoy.url), policies: sluice.policies };
}

/** Runs `work` for each item, with a limited number at once. */
async function each<T>(items: Iterable<T>, atOnce: number, work: (item: T) => Promise<void>) {
  const rest = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = rest.next(); next.done !== true; next = rest.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

test("10 000 users have 10 000 buckets", async (t) => {
  const USERS = 10_000;
  // So slow that no bucket grants a second token within this test.
  const { client } = await house(t, perUser(1, 0.0001));
  const round = async () => {
    const seen = new Map<number, number>();
    await each(Array(USERS).keys(), 64, async (user) => {
      const { status } = await client({ headers: { "x-user": `user-${user}` } });
      seen.set(status, (seen.get(status) ?? 0) + 1);
    });
    return Object.fromEntries(seen);
  };
  assert.deepEqual(await round(), { 200: USERS });
  assert.deepEqual(await round(), { 429: USERS });
});

test("the sixth request of each user in a burst is refused, whatever other users do", async (t) => {
  const { client } = await house(t, perUser(5, 0.0001));
  const statuses = new Map<number, number[]>();
  const users = Array.from({ length: 100 }, (_, user) => user);
  await each(users.concat(users, users, users, users, users), 64, async (user) => {
    const { status } = await client({ headers: { "x-user": `user-${user}` } });
    statuses.set(user, [...(statuses.get(user) ?? []), status]);
  });
  for (const user of users) {
    const sorted = statuses.get(user)?.sort();
    assert.deepEqual(sorted, [200, 200, 200, 200, 200, 429], `user ${user}`);
  }
});

test("an edit under load is in force within a second, and never more passes than capacity and refill allow", async (t) => {
  const CAPACITY = 20;
  const NO_FILL = 0.0001;
  const FILL = 50;
  const { client, policies } = await house(t, perUser(CAPACITY, NO_FILL));
  const passed: number[] = [];
  const load = { on: true };
  const lanes = Array.from({ length: 8 }, async () => {
    while (load.on) {
      const { status } = await client({ headers: { "x-user": "ann" } });
      if (status === 200) passed.push(performance.now());
      else assert.equal(status, 429);
    }
  });
  t.after(() => {
    load.on = false;
  });
  const edit = (fill: number) => {
    const at = performance.now();
    writeFileSync(join(policies, FILE), perUser(CAPACITY, fill));
    return at;
  };
  const since = (from: number, to = Number.POSITIVE_INFINITY) =>
    passed.filter((at) => at > from && at <= to).length;

  await until("the bucket is empty", async () => since(0) === CAPACITY);
  await sleep(200);
  assert.equal(since(0), CAPACITY, "no more than the capacity");

  const opened = edit(FILL);
  await until("the first request passes again", async () => since(opened) > 0, 1_000);
  await sleep(1_000);
  const closed = edit(NO_FILL);
  await sleep(1_000);
  const live = performance.now();
  await sleep(500);
  load.on = false;
  await Promise.all(lanes);

  assert.equal(since(live), 0, "a second after the edit the old fill gives nothing any more");
  const last = passed.at(-1) ?? 0;
  const most = ((last - opened) / 1_000) * FILL;
  assert.ok(since(opened) <= most + 1, `${since(opened)} passed, ${most} were refilled at most`);
  assert.ok(since(opened, closed) >= FILL * 0.8, `${since(opened, closed)} in a second and more`);
  assert.equal(since(0, opened), CAPACITY, "the edit itself opened nothing");
});
