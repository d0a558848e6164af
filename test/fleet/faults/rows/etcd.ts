// Faults of etcd and of the way to it. Agents count for each other, as they do by default: they know each other by etcd.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Etcd, enableUsers } from "../../../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../../../kit/etcd/store.ts";
import { until } from "../../../kit/until.ts";
import { degraded, type Fleet, recovered } from "../fleet.ts";
import type { Load } from "../load.ts";
import type { Row } from "../row.ts";

/** `etcd.lease_ttl` of every process here. */
const LEASE_MS = 2_000;
/** Nothing may be admitted twice: etcd counts nothing. */
const NOTHING = { rate: 0, filling: 0, slots: 0, "rate-local": 0 } as const;
const KEPT = "Nobody notices: agents keep their rules and numbers, and count on.";

const DEGRADED = `${KEPT} Agents and controllers stay ready, and say that they are degraded.`;
/** Agents and controllers reach etcd over proxies, which a row can cut. */
const PROXIED = {
  family: "etcd",
  fleet: { engine: "peers", proxied: true },
  bounds: NOTHING,
} as const;

const everyone = ({ agents, controllers }: Fleet) => [...agents, ...controllers];

/** A fault during which no etcd answers, until `repair`. */
async function away(fleet: Fleet, load: Load, ms: number, repair: () => unknown): Promise<void> {
  await degraded(everyone(fleet));
  const edited = fleet.write();
  await Promise.all([sleep(ms), load.more(50)]);
  await repair();
  await recovered(everyone(fleet));
  await edited();
}

const USER = { name: "ann", password: "right" } as const;
const LOGIN = { ETCD_USERNAME: USER.name, ETCD_PASSWORD: USER.password } as const;

async function withUsers(etcd: Etcd) {
  await enableUsers(etcd, USER);
  return LOGIN;
}

/** Flags by which an etcd signs tokens that are valid for two seconds. */
function briefTokens(folder: string): readonly string[] {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const [own, shared] = [join(folder, "private.pem"), join(folder, "public.pem")];
  writeFileSync(own, privateKey.export({ type: "pkcs1", format: "pem" }));
  writeFileSync(shared, publicKey.export({ type: "spki", format: "pem" }));
  return [`--auth-token=jwt,pub-key=${shared},priv-key=${own},sign-method=RS256,ttl=2s`];
}

export const ETCD: readonly Row[] = [
  {
    fault: "the leader of three etcd members is killed, and starts again",
    family: "etcd",
    fleet: { engine: "peers", etcd: { members: 3 } },
    bounds: NOTHING,
    expected: KEPT,
    checks: 100,
    async happens(fleet, load) {
      const leader = await fleet.etcd.leader();
      await leader.kill();
      await load.more(50);
      await fleet.edit();
      await leader.start();
      await fleet.edit();
    },
  },
  {
    fault: "all three etcd members are killed for 30 s",
    family: "etcd",
    fleet: { engine: "peers", etcd: { members: 3 } },
    bounds: NOTHING,
    expected: DEGRADED,
    checks: 500,
    async happens(fleet, load) {
      const { members } = fleet.etcd;
      await Promise.all(members.map((member) => member.kill()));
      await away(fleet, load, 30_000, () => Promise.all(members.map((member) => member.start())));
    },
  },
  {
    fault: "etcd is frozen (SIGSTOP) for three leases",
    family: "etcd",
    fleet: { engine: "peers" },
    bounds: NOTHING,
    expected: DEGRADED,
    checks: 200,
    quick: true,
    async happens(fleet, load) {
      const [member] = fleet.etcd.members;
      await member?.freeze();
      await away(fleet, load, 3 * LEASE_MS, () => member?.thaw());
    },
  },
  {
    fault: "the way to etcd drops everything for three leases",
    ...PROXIED,
    expected: DEGRADED,
    checks: 200,
    async happens(fleet, load) {
      const [proxy] = fleet.proxies;
      proxy?.swallow();
      await away(fleet, load, 3 * LEASE_MS, () => proxy?.open());
    },
  },
  {
    fault: "the way to etcd takes 2 s, there and back",
    family: "etcd",
    fleet: {
      engine: "peers",
      proxied: true,
      // No lease of two seconds can be kept over such a way.
      prepare: async () => ({ ETCD_LEASE_TTL: "10s" }),
    },
    bounds: NOTHING,
    expected:
      "Edits arrive late. The lease (`etcd.lease_ttl`, here 10 s) must be longer than a few round trips; a reply after more than three seconds is none.",
    checks: 200,
    async happens(fleet, load) {
      const [proxy] = fleet.proxies;
      proxy?.delay(1_000);
      await load.more(50);
      await fleet.edit();
      await fleet.edit();
      proxy?.open();
      await fleet.edit();
    },
  },
  {
    fault: "the way to etcd resets connections, five times in turn and then for three leases",
    ...PROXIED,
    expected: DEGRADED,
    checks: 200,
    async happens(fleet, load) {
      const [proxy] = fleet.proxies;
      for (let n = 0; n < 5; n++) {
        proxy?.cut();
        await load.more(5);
        proxy?.open();
        await load.more(5);
      }
      await fleet.edit();
      proxy?.cut();
      await away(fleet, load, 3 * LEASE_MS, () => proxy?.open());
    },
  },
  {
    fault: "etcd compacts its history while agents cannot reach it",
    ...PROXIED,
    expected: "Agents get the difference, and lose no rule at any moment.",
    checks: 100,
    async happens(fleet, load) {
      const [proxy] = fleet.proxies;
      proxy?.cut();
      await degraded(fleet.agents);
      const direct = openEtcd(fleet.test, etcdSettings(fleet.etcd.endpoints));
      const value = new Uint8Array(1);
      for (let n = 0; n < 10; n++) await direct.commit([{ kind: "put", key: "/other", value }]);
      await fleet.etcd.compact();
      const edited = fleet.write();
      await load.more(20);
      proxy?.open();
      await edited();
      await recovered(fleet.agents);
    },
  },
  {
    fault: "the database of etcd is full (alarm NOSPACE)",
    family: "etcd",
    fleet: { engine: "peers", etcd: { flags: ["--quota-backend-bytes=8000000"] } },
    bounds: NOTHING,
    expected:
      "Agents keep their rules and numbers, and count on. The controller says so, and writes edits when there is room.",
    checks: 200,
    async happens(fleet, load) {
      const { etcd, controllers } = fleet;
      const others = etcdSettings(etcd.endpoints, { namespace: "others" });
      const store = openEtcd(fleet.test, others);
      const value = new Uint8Array(1_000_000);
      const fill = async () => {
        for (let n = 0; n < 20; n++) await store.commit([{ kind: "put", key: `/${n}`, value }]);
      };
      await assert.rejects(fill, { code: "RESOURCE_EXHAUSTED" });
      const edited = fleet.write();
      for (const each of controllers)
        await each.until("it says so", () => /NOSPACE|space exceeded/.test(each.printed()));
      await Promise.all([sleep(2 * LEASE_MS), load.more(50)]);
      await etcd.ctl("del", "--prefix", "others");
      await etcd.compact();
      await etcd.ctl("defrag");
      await etcd.ctl("alarm", "disarm");
      await edited();
    },
  },
  {
    fault: "tokens of the etcd user expire every 2 s",
    family: "etcd",
    fleet: { engine: "peers", etcd: { flags: briefTokens }, prepare: withUsers },
    bounds: NOTHING,
    expected: "Nobody notices: agents and controllers get new tokens.",
    checks: 200,
    async happens(fleet, load) {
      for (let n = 0; n < 3; n++) {
        // Longer than a token is valid.
        await Promise.all([sleep(2_500), load.more(20)]);
        await fleet.edit();
      }
    },
  },
  {
    fault: "etcd knows another password: at the start, and for processes that run",
    family: "etcd",
    fleet: { engine: "peers", prepare: withUsers },
    bounds: NOTHING,
    expected:
      "A process with a wrong password does not start: its last line names the keys, without the value. Those that run keep rules and numbers, say that they are degraded, and go on when the password is right again.",
    checks: 200,
    quick: true,
    async happens(fleet, load) {
      const refused = /etcd at 127\.0\.0\.1:\d+: refused etcd\.username and etcd\.password/;
      const wrong = (["agent", "controller"] as const).map((name) =>
        fleet.launch(name, { ETCD_PASSWORD: "hunter2" }),
      );
      for (const one of wrong) {
        assert.equal(await one.ended, 64);
        assert.match(one.printed(), refused);
        assert.doesNotMatch(one.printed(), /hunter2/);
      }
      const root = (...args: readonly string[]) => fleet.etcd.ctl("--user=root:root", ...args);
      const user = async (password: string) => {
        await root("user", "delete", USER.name);
        await root("user", "add", `${USER.name}:${password}`);
        await root("user", "grant-role", USER.name, "sluice");
      };
      await user("changed");
      // A server forgets its tokens when it ends.
      const [member] = fleet.etcd.members;
      await member?.kill();
      await member?.start();
      await degraded(everyone(fleet), "refused etcd.username and etcd.password");
      const edited = fleet.write();
      await Promise.all([sleep(2 * LEASE_MS), load.more(30)]);
      await user(USER.password);
      await recovered(everyone(fleet));
      await edited();
    },
  },
  {
    fault: "one etcd member, which agents use, is cut off from the other two",
    family: "etcd",
    fleet: { engine: "peers", proxied: true, etcd: { members: 3, isolable: true } },
    bounds: NOTHING,
    expected: `${KEPT} They leave a member that has no leader for another one.`,
    checks: 100,
    async happens(fleet, load) {
      const used = fleet.proxies.map((proxy) => proxy.connections());
      const most = used.indexOf(Math.max(...used));
      const member = fleet.etcd.members[most];
      await member?.isolate();
      const metrics = async () => (await fetch(`${fleet.etcd.endpoints[most]}/metrics`)).text();
      await until("the member has no leader", async () =>
        /^etcd_server_has_leader 0$/m.test(await metrics()),
      );
      await load.more(20);
      await fleet.edit();
      assert.match(await metrics(), /^etcd_server_has_leader 0$/m);
      member?.rejoin();
      await fleet.edit();
    },
  },
];
