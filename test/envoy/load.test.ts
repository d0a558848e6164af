// Many users, and policies edited under load, through a real Envoy. The client counts the requests that pass and
// compares the number with what token buckets may grant.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type Client, http2 } from "../kit/clients/http.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { call } from "../kit/sluice/check.ts";
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
  /** Address of the agent, which can also be asked directly. */
  readonly address: string;
}

async function house(test: TestContext, policy: string): Promise<House> {
  const sluice = await standaloneProcess(test, { policies: { [FILE]: policy } });
  const envoy = await startEnvoy(test, {
    agent: sluice.address,
    service: await startService(test),
    // These tests count requests. They do not measure latency on a machine that runs everything at once.
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s");
      bootstrap.serviceSpeaksHttp1();
    },
  });
  return { client: http2(test, envoy.url), policies: sluice.policies, address: sluice.address };
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

test("an edit under load comes into force, and never more passes than capacity and refill allow", async (t) => {
  const CAPACITY = 20;
  const NO_FILL = 0.0001;
  const FILL = 50;
  const { client, policies, address } = await house(t, perUser(CAPACITY, NO_FILL));
  const passed: number[] = [];
  let asked = 0;
  const load = { on: true };
  const lanes = Array.from({ length: 8 }, async () => {
    while (load.on) {
      const { status } = await client({ headers: { "x-user": "ann" } });
      asked++;
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
  const since = (from: number) => passed.filter((at) => at > from).length;
  /** Waits until so many requests were answered that whatever a bucket holds is spent. */
  const manyMore = async () => {
    const enough = asked + 500;
    await until("500 more requests", async () => asked >= enough);
  };

  await until("the bucket is empty", async () => since(0) === CAPACITY);
  await manyMore();
  assert.equal(since(0), CAPACITY, "no more than the capacity");

  const opened = edit(FILL);
  await until("refilled tokens pass", async () => since(opened) >= 2 * CAPACITY);
  assert.equal(passed.length - since(opened), CAPACITY, "the edit itself opened nothing");
  const before = await policyHash(address);
  edit(NO_FILL);
  await until("the edit is in force", async () => (await policyHash(address)) !== before);
  const live = performance.now();
  await manyMore();
  const spent = performance.now();
  await manyMore();
  load.on = false;
  await Promise.all(lanes);

  assert.equal(since(spent), 0, "after the edit the old fill gives nothing any more");
  const most = ((live - opened) / 1_000) * FILL;
  assert.ok(since(opened) <= most + 1, `${since(opened)} passed, ${most} were refilled at most`);
});

/** Hash of the policy that decides now, asked by a user with a bucket of its own. */
async function policyHash(address: string): Promise<string> {
  const request = { method: "GET", path: "/", headers: { "x-user": "somebody" } };
  const check = { control_point: "ingress", request };
  const { body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  return JSON.parse(body).check_response.limiter_decisions[0].policy_hash;
}
