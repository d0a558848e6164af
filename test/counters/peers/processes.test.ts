// Agents in processes of their own that count for each other, over a real etcd: one limit for all of them, while they are
// killed, frozen and joined by others. `../faults/` has agents that are restarted in turn.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { writeMember } from "#fleet/members.ts";
import { peerKey } from "#sync/keys.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../../kit/etcd/store.ts";
import { folderOf } from "../../kit/folder.ts";
import { listening, type SluiceChild, startSluice } from "../../kit/servers/sluice.ts";
import { call, passes } from "../../kit/sluice/check.ts";
import { counted, scraped } from "../../kit/sluice/scrape.ts";
import { until } from "../../kit/until.ts";

const CAPACITY = 100;
const PER_SECOND = 10;

/** At `shop` one limit for all; at `pub` one of ten for each user, whose buckets never fill. */
const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: ${PER_SECOND} } }
          parameters: { interval: 1s, on_failure: closed }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: pub }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 10 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, on_failure: closed, limit_by_label_key: http.request.header.user }
`;

/** Without leases, so that each token that is there is admitted at whichever agent it is wanted. */
const ENV = {
  COUNTERS_ENGINE: "peers",
  COUNTERS_LEASE_ENABLED: "false",
  COUNTERS_PEERS_TIMEOUT: "5s",
  DIST_CACHE_BIND_ADDR: "127.0.0.1:0",
  DIST_CACHE_MEMBERLIST_BIND_ADDR: "127.0.0.1:0",
  ETCD_LEASE_TTL: "2s",
};

/** Agents and their etcd, with the policy in force. */
async function fleet(t: TestContext, count: number, env: Readonly<Record<string, string>> = {}) {
  const etcd = await startEtcd(t);
  const { endpoints } = etcd;
  const policies = folderOf(t, { "limit.yaml": POLICY });
  const start = (more: Readonly<Record<string, string>> = {}) =>
    startSluice(t, "agent", endpoints, [], { ...ENV, ...env, ...more });
  const controller = startSluice(t, "controller", endpoints, ["--policies", policies]);
  const agents = Array.from({ length: count }, () => start());
  await listening(controller, ...agents);
  await ready(agents, count);
  return { agents, start, endpoints, etcd };
}

/** Waits until each of the agents counts with `members` of them, and has the policy. */
async function ready(agents: readonly SluiceChild[], members: number) {
  for (const agent of agents) {
    await until("the agent has the policy", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return body.includes("2 rules in force");
    });
    // Until its numbers have come, a limiter refuses, as `closed` says.
    const user = `ready-${agent.address()}-${performance.now()}`;
    await until("the agent has the numbers", () => passes(agent.address(), "pub", { user }));
    await until(`${members} agents count`, async () => {
      const { members: known, joining } = await stats(agent);
      return known.length === members && !joining;
    });
  }
}

interface Stats {
  readonly keys: number;
  readonly members: readonly { readonly name: string }[];
  readonly joining: boolean;
  readonly moved: Readonly<Record<string, number>>;
}

async function stats(agent: SluiceChild): Promise<Stats> {
  const { status, body } = await call(agent.address(), "GET", "/v1/distcache/stats");
  assert.equal(status, 200, body);
  return JSON.parse(body);
}

/** Status of the engine. */
async function engineStatus(agent: SluiceChild): Promise<string> {
  const { body } = await call(agent.address(), "GET", "/v1/status/system/counters");
  return body;
}

const users = (count: number) => Array.from({ length: count }, (_, at) => `user-${at}`);

/** The number of checks that pass, of `times` for each user, at the agents in turn. */
async function admitted(agents: readonly SluiceChild[], names: readonly string[], times: number) {
  let passed = 0;
  for (let n = 0; n < times; n++) {
    const results = names.map((user, at) => {
      const agent = agents[(n + at) % agents.length];
      return passes(agent?.address() ?? "", "pub", { user });
    });
    for (const passes of await Promise.all(results)) if (passes) passed++;
  }
  return passed;
}

const LEASED = { COUNTERS_LEASE_ENABLED: "true" };

/** Checks at shared rate limiters, by how they were decided; of all agents together. */
async function takes(agents: readonly SluiceChild[]) {
  const sums = { granted: 0, refused: 0, asked: 0, own: 0 };
  for (const agent of agents) {
    const counts = await counted(agent.address(), "sluice_counter_takes_total", "result");
    for (const key of Object.keys(sums) as (keyof typeof sums)[]) sums[key] += counts[key] ?? 0;
  }
  return sums;
}

/**
 * Lets further users, whom it adds to `names`, ask in bursts until an agent admits them from leased tokens. Flows that wait
 * together show a demand that a slow machine does not hide. Returns how many passed.
 */
async function askUntilLeased(agents: readonly SluiceChild[], names: string[]) {
  let passed = 0;
  for (let n = 0; (await takes(agents)).granted === 0; n++) {
    assert.ok(n < 60, "tokens are leased");
    const user = `eager-${n}`;
    names.push(user);
    const address = agents[n % agents.length]?.address() ?? "";
    for (let burst = 0; burst < 2; burst++) {
      const results = Array.from({ length: 5 }, () => passes(address, "pub", { user }));
      for (const passes of await Promise.all(results)) if (passes) passed++;
    }
  }
  return passed;
}

test("three agents at five times a limit admit it together: 0.97 to 1.00 of capacity and refill", async (t) => {
  const { agents } = await fleet(t, 3, LEASED);
  const before = await takes(agents);
  const enough = 150;
  let passed = 0;
  let asked = 0;
  const caller = async (address: string) => {
    while (passed < enough) {
      asked++;
      if (await passes(address, "shop")) passed++;
    }
  };
  const begin = performance.now();
  const addresses = agents.map((agent) => agent.address());
  await Promise.all(Array.from({ length: 12 }, (_, at) => caller(addresses[at % 3] ?? "")));
  let refusedAt = performance.now();
  while (await passes(addresses[0] ?? "", "shop")) {
    passed++;
    refusedAt = performance.now();
  }
  const bound = (at: number) => CAPACITY + (PER_SECOND * (at - begin)) / 1_000;
  const [least, most] = [bound(refusedAt), bound(performance.now())];
  t.diagnostic(`${asked} asked, ${passed} admitted of ${most}`);
  assert.ok(passed <= most, `${passed} of ${most}`);
  assert.ok(passed >= 0.97 * least, `${passed} of ${least}`);
  assert.ok(asked - CAPACITY >= 5 * (least - CAPACITY), `${asked} asked: five times the limit`);
  const after = await takes(agents);
  const waited = after.asked - before.asked;
  const own = after.own - before.own;
  const local = after.granted - before.granted + after.refused - before.refused;
  t.diagnostic(`${own} counted in process, ${local} decided without asking, ${waited} asked`);
  assert.ok(
    own > 0 && local > waited,
    `${local} of ${local + waited} at the agents that do not count`,
  );
});

test("a leaseholder and then an owner that are killed admit nothing twice, beyond one capacity for the loss", async (t) => {
  const { agents } = await fleet(t, 3, { ...LEASED, ETCD_LEASE_TTL: "600s" });
  const names = users(30);
  let passed = await admitted(agents, names, 8);
  passed += await askUntilLeased(agents, names);
  assert.ok(passed > 0 && passed <= 10 * names.length, `${passed} of ${names.length} users`);
  // Each agent counts some keys, and has leased tokens of others.
  const [lost, ...rest] = agents;
  const own = (await stats(lost as SluiceChild)).keys;
  lost?.kill("SIGKILL");
  await lost?.ended;
  await ready(rest, 2);
  for (let n = 0; n < 4; n++) {
    passed += await admitted(rest, names, 10);
    // Leases of the lost agent are over.
    await pause(600);
  }
  const most = 10 * (names.length + own);
  assert.ok(passed <= most, `${passed} of ${most}: one capacity of each of ${own} keys`);
  assert.ok(passed > 200, `${passed}`);
});

test("an agent that joins and one that stops take along what was counted", async (t) => {
  const { agents, start } = await fleet(t, 2);
  const names = users(30);
  assert.equal(await admitted(agents, names, 4), 120);
  const third = start();
  await listening(third);
  const all = [...agents, third];
  await ready(all, 3);
  assert.ok(((await stats(third)).moved["received"] ?? 0) > 0);
  assert.equal(await admitted(all, names, 3), 90);
  third.kill();
  await third.ended;
  await ready(agents, 2);
  assert.equal(await admitted(agents, names, 9), 90, "ten of each in all");
});

test("an agent that is killed loses what it counted, and is left out before its lease ends", async (t) => {
  const { agents } = await fleet(t, 3, { ETCD_LEASE_TTL: "600s" });
  const names = users(30);
  assert.equal(await admitted(agents, names, 10), 300);
  const [lost, ...rest] = agents;
  lost?.kill("SIGKILL");
  await lost?.ended;
  await ready(rest, 2);
  const again = await admitted(rest, names, 10);
  assert.ok(again > 0 && again < 300, `${again}: one capacity of each key that it counted`);
  assert.equal(again % 10, 0);
  assert.equal(await admitted(rest, names, 1), 0);
});

test("with two copies a killed agent loses nothing", async (t) => {
  const { agents } = await fleet(t, 3, {
    DIST_CACHE_REPLICA_COUNT: "2",
    DIST_CACHE_SYNC_REPLICATION: "true",
  });
  const names = users(30);
  assert.equal(await admitted(agents, names, 6), 180);
  const [lost, ...rest] = agents;
  lost?.kill("SIGKILL");
  await lost?.ended;
  await ready(rest, 2);
  assert.equal(await admitted(rest, names, 12), 120);
});

test("an agent that is frozen is away until it goes on; on_failure answers for its keys", async (t) => {
  const { agents } = await fleet(t, 2, { ETCD_LEASE_TTL: "600s" });
  const [frozen, other] = agents as [SluiceChild, SluiceChild];
  const names = users(20);
  assert.equal(await admitted(agents, names, 4), 80);
  await frozen.freeze();
  const meanwhile = await admitted([other], names, 2);
  assert.ok(meanwhile > 0 && meanwhile < 40, `${meanwhile}: the keys of the other one`);
  await until("the engine is away", async () =>
    /^sluice_counter_engine_up{engine="peers"} 0$/m.test(await scraped(other.address())),
  );
  const { body } = await call(other.address(), "GET", "/v1/status/system/readiness");
  assert.doesNotMatch(body, /UNAVAILABLE/, "the agent stays in service");
  frozen.kill("SIGCONT");
  await until("all agents answer", async () =>
    /^sluice_counter_engine_up{engine="peers"} 1$/m.test(await scraped(other.address())),
  );
  // Tokens that the frozen agent grants for requests whose callers have given up are lost, at most one for each user.
  const rest = await admitted(agents, names, 8);
  assert.ok(rest <= 120 - meanwhile && rest >= 100 - meanwhile, `${rest} after ${meanwhile}`);
  const transitions = await counted(
    other.address(),
    "sluice_counter_engine_transitions_total",
    "state",
  );
  assert.deepEqual(transitions, { away: 1, back: 1 });
  const lines = (other.out() + other.err()).split("\n");
  assert.equal(lines.filter((line) => line.includes("is away, on_failure answers")).length, 1);
  assert.equal(lines.filter((line) => line.includes("answers again")).length, 1);
});

test("an agent that starts while etcd is away answers by on_failure until it knows the secret, then shares", async (t) => {
  const path = join(folderOf(t), "rules");
  const { agents, start, etcd } = await fleet(t, 1, { ETCD_SNAPSHOT_PATH: path });
  const [first] = agents as [SluiceChild];
  await until("the rules are saved", () => existsSync(path));
  first.kill();
  await first.ended;
  const [server] = etcd.members;
  await server?.freeze();
  const late = start();
  await listening(late);
  assert.match(await engineStatus(late), /on_failure .*: the secret of the group is not known yet/);
  assert.match(await scraped(late.address()), /^sluice_counter_engine_up{engine="peers"} 0$/m);
  assert.equal(await admitted([late], users(10), 2), 0, "on_failure is closed");
  assert.equal(await passes(late.address(), "shop"), false);
  server?.thaw();
  await until("the status recovers", async () =>
    /all agents of the group answer/.test(await engineStatus(late)),
  );
  await late.until("the log says so", () =>
    late.printed().includes("the secret of the group is known now"),
  );
  const second = start({ ETCD_SNAPSHOT_PATH: "" });
  await listening(second);
  await ready([late, second], 2);
  assert.equal(await admitted([late, second], users(10), 12), 100, "ten of each user");
});

test("agents of one group with different engines say that they count apart", async (t) => {
  const { agents, start } = await fleet(t, 1);
  const [first] = agents as [SluiceChild];
  const other = start({ COUNTERS_ENGINE: "local" });
  await listening(other);
  for (const [agent, engine] of [
    [first, "peers"],
    [other, "local"],
  ] as const) {
    const apart = new RegExp(`count apart from this one, whose counters\\.engine is ${engine}`);
    await until("the status says so", async () => apart.test(await engineStatus(agent)));
    await agent.until("the log says so", () => apart.test(agent.printed()));
  }
  other.kill();
  await other.ended;
  await until("the status recovers", async () =>
    /all agents of the group answer/.test(await engineStatus(first)),
  );
});

test("an agent that goes on after its lease has ended admits what it had counted at most, then the sum of both counts", async (t) => {
  const { agents } = await fleet(t, 2);
  const [frozen, other] = agents as [SluiceChild, SluiceChild];
  const names = users(20);
  assert.equal(await admitted(agents, names, 4), 80);
  await frozen.freeze();
  await ready([other], 1);
  const passed = new Map(names.map((user) => [user, 4]));
  const add = async (agent: SluiceChild, times: number) => {
    for (const user of names) {
      const more = await admitted([agent], [user], times);
      passed.set(user, (passed.get(user) ?? 0) + more);
    }
  };
  await add(other, 12);
  const moved = names.filter((user) => (passed.get(user) ?? 0) > 10);
  assert.ok(moved.length > 0 && moved.length < names.length);
  for (const user of moved) assert.equal(passed.get(user), 14, "one capacity for the lost count");
  frozen.kill("SIGCONT");
  await add(frozen, 12);
  await ready(agents, 2);
  await add(frozen, 2);
  await add(other, 2);
  for (const user of names) {
    const sum = passed.get(user) ?? 0;
    // Until it knows of the other one, it spends what it had: six tokens of each of its keys.
    if (moved.includes(user)) assert.ok(sum >= 14 && sum <= 20, `${sum} of ${user}`);
    else assert.equal(sum, 10, user);
  }
});

test("a record with an unusable address keeps agents neither from joining nor from one limit", async (t) => {
  const { agents, start, endpoints } = await fleet(t, 1);
  const store = openEtcd(t, etcdSettings(endpoints));
  const member = {
    group: "default",
    address: "bad:1",
    hostname: "bad",
    services: { "sluice-counters": "10.0.0.1:abc" },
    id: "bad",
  };
  const key = peerKey(member.group, member.address);
  const op = { kind: "put", key, value: writeMember(member) } as const;
  await store.commit([op], { lease: await store.lease() });
  const both = [...agents, start()];
  await listening(...both);
  await ready(both, 2);
  assert.equal(await admitted(both, users(20), 12), 200, "ten of each user");
  for (const agent of both) {
    assert.match(agent.printed(), /record of peer bad:1: it does not count: wanted host:port/);
    assert.doesNotMatch(agent.printed(), /cannot be read from the store|could not be followed/);
  }
});

test("the addresses that an agent is told to advertise are those where others look for it", async (t) => {
  const { agents, start } = await fleet(t, 1);
  const advertising = start({
    DIST_CACHE_BIND_ADDR: ":0",
    PEER_DISCOVERY_ADVERTISEMENT_ADDR: "localhost:7",
    DIST_CACHE_MEMBERLIST_ADVERTISE_ADDR: "127.0.0.1:9",
  });
  await listening(advertising);
  const { body } = await call(advertising.address(), "GET", "/v1/peers");
  const { address, services } = JSON.parse(body).self_peer;
  assert.equal(address, "localhost:7");
  assert.match(services["sluice-counters"], /^localhost:[0-9]+$/);
  assert.equal(services["sluice-counters-probes"], "127.0.0.1:9");
  const both = [...agents, advertising];
  await ready(both, 2);
  assert.equal(await admitted(both, users(20), 12), 200, "ten of each user");
});
