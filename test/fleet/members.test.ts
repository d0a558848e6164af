// The records that agents leave in the store, over a store in memory and over a real etcd.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { JoinedGroup, type JoinOptions } from "#fleet/joined-group.ts";
import { FollowedMembers, type Members, readMember, writeMember } from "#fleet/members.ts";
import { realClock } from "#runtime/life/clock.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { fakeClock } from "../kit/clock.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { storeWith } from "../kit/sluice/stored.ts";
import { until } from "../kit/until.ts";

function join(t: TestContext, store: Store, changed: Partial<JoinOptions> = {}) {
  const { log, lines } = memoryLogOf();
  const group = new JoinedGroup({
    store,
    group: "default",
    hostname: "node1",
    id: "id-1",
    clock: realClock(),
    log,
    announced: () => undefined,
    ...changed,
  });
  t.after(() => group.close());
  return Object.assign(group, { lines });
}

function memoryLogOf() {
  const log = memoryLog();
  return { log, lines: log.lines };
}

function followAll(t: TestContext, store: Store, clock: Clock = realClock()): FollowedMembers {
  const all = new FollowedMembers({ store, clock, log: memoryLog() });
  t.after(() => all.close());
  return all;
}

const addresses = ({ list }: Members) => list.map(({ address }) => address);

test("agents see one another with their services; listeners hear of changes only", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  const two = join(t, store, { hostname: "node2", id: "id-2" });
  let changes = 0;
  one.onChange(() => {
    changes += 1;
  });
  assert.equal(one.self, undefined, "no port is open yet");
  one.register("counters", "node1:3320");
  one.announce("node1:8080");
  two.announce("node2:8080");
  await until("both are known", () => one.list.length === 2 && two.list.length === 2);
  assert.deepEqual(one.list, two.list);
  assert.deepEqual(one.list[0], {
    group: "default",
    address: "node1:8080",
    hostname: "node1",
    services: { counters: "node1:3320" },
    id: "id-1",
  });
  const before = changes;
  const { list } = one;
  two.announce("node2:8080");
  two.register("rpc", "node2:1");
  await until("the service is known", () => one.list[1]?.services["rpc"] === "node2:1");
  assert.equal(changes, before + 1, "the record that was written without a change is none");
  assert.notEqual(one.list, list);
  await two.leave();
  await until("it has left", () => one.list.length === 1);
});

test("a service that moves to another address is a change", async (t) => {
  const one = join(t, memoryStore());
  one.register("counters", "node1:3320");
  one.announce("node1:8080");
  await until("it is known", () => one.list.length === 1);
  one.register("counters", "node1:3321");
  await until("it has moved", () => one.list[0]?.services["counters"] === "node1:3321");
});

test("a listener that fails keeps a change from nobody, and the members are followed on", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  await one.known;
  one.onChange(() => {
    throw new Error("a bad listener");
  });
  const heard: (readonly string[])[] = [];
  one.onChange(() => heard.push(addresses(one)));
  one.announce("node1:8080");
  await until("the first is heard of", () => heard.length === 1);
  const two = join(t, store, { hostname: "node2", id: "id-2" });
  two.announce("node2:8080");
  await until("the second is heard of", () => heard.length === 2);
  assert.deepEqual(heard, [["node1:8080"], ["node1:8080", "node2:8080"]]);
  assert.deepEqual(
    one.lines.map(({ level, message }) => `${level}: ${message}`),
    Array(2).fill("error: a change of the agents could not be followed"),
  );
});

test("D-15: group `a` does not receive the agents of `ab` or `a/b`", async (t) => {
  const store = memoryStore();
  const groups = ["a", "ab", "a/b"].map((group, at) => {
    const joined = join(t, store, { group, id: `id-${at}` });
    joined.announce(`host${at}:80`);
    return joined;
  });
  const all = followAll(t, store);
  await until("all are known", () => all.list.length === 3);
  assert.deepEqual(groups.map(addresses), [["host0:80"], ["host1:80"], ["host2:80"]]);
  assert.deepEqual(
    all.list.map(({ group }) => group),
    ["a/b", "a", "ab"],
  );
});

test("a record that cannot be read is left out, counted and logged; the others stay", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  one.announce("node1:8080");
  const put = (key: string, value: Uint8Array) => ({ kind: "put", key, value }) as const;
  await store.commit([
    put("/peers/aperture-agent/default/bad:1", Buffer.from([255])),
    put("/peers/aperture-agent/default/large:1", Buffer.alloc(64 * 1024 + 1)),
    put("/peers/aperture-agent/default/", Buffer.alloc(0)),
  ]);
  await until("it is refused", () => one.refused === 3);
  await until("the own one is known", () => one.list.length === 1);
  assert.equal(one.lines.filter(({ message }) => /is left out/.test(message)).length, 3);
});

const keyOf = (address: string) => `/peers/aperture-agent/default/${address}`;

function recordOf(address: string, id: string) {
  const member = { group: "default", address, hostname: "h", services: {}, id };
  return { kind: "put", key: keyOf(address), value: writeMember(member) } as const;
}

test("a record without a lease is left out, with one line and one count, until it is written under a lease", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  one.announce("node1:8080");
  const record = recordOf("forged:1", "id-9");
  await store.commit([record]);
  await until("it is left out", () => one.leftOut.has(record.key));
  await store.commit([record]);
  await store.commit([recordOf("forged:2", "id-8")]);
  await until("another one is", () => one.leftOut.size === 2);
  assert.deepEqual(addresses(one), ["node1:8080"]);
  assert.equal(one.refused, 2);
  const why = "it has no lease, so it would outlive its agent; delete the key if no agent wrote it";
  assert.deepEqual(
    one.lines.map(({ message }) => message),
    ["forged:1", "forged:2"].map((each) => `the record ${keyOf(each)} is left out: ${why}`),
  );
  await store.commit([record], { lease: await store.lease() });
  await until("it is a member", () => addresses(one).includes("forged:1"));
  await store.commit([{ kind: "delete", key: keyOf("forged:2") }]);
  await until("nothing is left out", () => one.leftOut.size === 0);
});

test("of several records with one id the oldest counts, for those who saw them come and for those who did not", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  const two = join(t, store, { id: "id-2" });
  one.announce("node1:8080");
  await until("it is known", () => two.list.length === 1);
  const lease = await store.lease();
  await store.commit([recordOf("a:1", "id-1"), recordOf("z:1", "id-1")], { lease });
  await until("the copies are left out", () => two.leftOut.size === 2);
  // What it writes again stays the older one.
  one.register("counters", "node1:3320");
  await until("its service is known", () => two.list[0]?.services["counters"] !== undefined);
  const late = join(t, store, { id: "id-3" });
  await late.known;
  for (const each of [one, two, late]) {
    assert.deepEqual(addresses(each), ["node1:8080"]);
    assert.deepEqual([...each.leftOut.keys()], [keyOf("a:1"), keyOf("z:1")]);
    assert.equal(each.lines.length, 2);
  }
  const why = `the older record ${keyOf("node1:8080")} already has this agent's id`;
  assert.equal(late.leftOut.get(keyOf("a:1")), why);
  await one.leave();
  await until("a copy is the oldest now", () => addresses(two).join() === "a:1");
});

test("an agent whose record was deleted, or replaced by one that is left out, writes it again", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  const two = join(t, store, { id: "id-2" });
  one.announce("node1:8080");
  two.announce("node2:8080");
  const isThere = async () => {
    const { entries } = await store.list(keyOf("node1:8080"));
    return (
      entries[0]?.leased === true && readMember(entries[0].key, entries[0].value).id === "id-1"
    );
  };
  await until("both are known", () => one.list.length === 2);
  for (const op of [
    { kind: "delete", key: keyOf("node1:8080") },
    recordOf("node1:8080", "id-9"),
    recordOf("node1:8080", "id-1"),
    { kind: "put", key: keyOf("node1:8080"), value: Buffer.from([255]) },
  ] as const) {
    await store.commit([op]);
    assert.equal(await isThere(), false);
    await until("it is there again", isThere);
    await until("both are known again", () => one.list.length === 2 && one.leftOut.size === 0);
  }
  await one.leave();
  await until("it stays away", () => two.list.length === 1);
  assert.equal((await store.list(keyOf("node1:8080"))).entries.length, 0);
});

test("an agent whose record was replaced before it saw it writes it again", async (t) => {
  const store = memoryStore();
  let isReplaced = false;
  const commit: Store["commit"] = (ops, options) => {
    const written = store.commit(ops, options);
    if (!isReplaced) void store.commit([recordOf("node1:8080", "id-9")]);
    isReplaced = true;
    return written;
  };
  const one = join(t, storeWith(store, { commit }));
  one.announce("node1:8080");
  await until("it is known", () => one.list[0]?.id === "id-1");
  assert.equal(isReplaced, true);
});

test("records of other implementations are read: they have no id", () => {
  const member = { group: "g", address: "h:1", hostname: "h", services: { a: "b:2" }, id: "" };
  const bytes = writeMember(member);
  assert.deepEqual(readMember("/peers/aperture-agent/g/h:1", bytes), member);
  // Fields 1 to 3 as another writer encodes them.
  assert.equal(Buffer.from(bytes).toString("hex"), "0a03683a3112016" + "81a080a01611203623a32");
});

test("agents that announce one address are all members: whoever lost it is announced by its id, and warns once", async (t) => {
  const store = memoryStore();
  const twins = ["id-1", "id-2", "id-3"].map((id) => join(t, store, { id }));
  const warnings = () =>
    twins.map(({ lines }) => lines.filter(({ message }) => /peer_discovery/.test(message)).length);
  const [one, two, three] = twins;
  assert.ok(one && two && three);
  one.announce("same:8080");
  await until("the first is there", () => one.list.length === 1);
  two.announce("same:8080");
  await until("both are there", () => twins.every(({ list }) => list.length === 2));
  three.announce("same:8080");
  await until("all are there", () => twins.every(({ list }) => list.length === 3));
  const other = join(t, store, { id: "id-4" });
  other.announce("other:8080");
  const all = ["id-1", "id-2", "other:8080", "same:8080"];
  for (const each of [...twins, other])
    await until("all four are known", () => addresses(each).join() === all.join());
  assert.equal(one.self?.address, "id-1");
  assert.equal(three.list.at(-1)?.id, "id-3");
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate);
  const { revision } = await store.list("/peers/");
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate);
  assert.equal((await store.list("/peers/")).revision, revision, "nobody writes any more");
  assert.deepEqual(warnings(), [1, 1, 0]);
});

test("an agent that has left does not contend for its address", async (t) => {
  const store = memoryStore();
  const one = join(t, store);
  one.announce("same:8080");
  await until("it is there", () => one.list.length === 1);
  await one.leave();
  await store.commit([recordOf("same:8080", "id-2")], { lease: await store.lease() });
  await until("the other is there", () => one.list[0]?.id === "id-2");
  assert.equal(one.self?.address, "same:8080");
  assert.deepEqual(one.lines, []);
});

test("etcd: an agent that gave up its address leaves it alone when its lease is lost", async (t) => {
  const etcd = await startEtcd(t);
  const settings = etcdSettings(etcd.endpoints, { lease_ttl: 2_000 });
  const all = followAll(t, openEtcd(t, settings));
  const one = join(t, openEtcd(t, settings));
  one.announce("same:8080");
  await until("the first is there", () => one.list.length === 1);
  const [, lease = ""] = (await etcd.ctl("lease", "list")).split("\n");
  const two = join(t, openEtcd(t, settings), { id: "id-2" });
  two.announce("same:8080");
  await until("both are there", () => addresses(all).join() === "id-1,same:8080");
  const states: string[] = [];
  all.onChange(() => states.push(all.list.map(({ id }) => id).join()));
  await etcd.ctl("lease", "revoke", lease);
  await until("its record went and came back", () => states.join(" ") === "id-2 id-1,id-2");
  assert.deepEqual(
    all.list.map(({ id, address }) => [id, address]),
    [
      ["id-1", "id-1"],
      ["id-2", "same:8080"],
    ],
  );
});

test("of agents that announce one address at the same time each is a member", async (t) => {
  const store = memoryStore();
  const twins = ["id-1", "id-2", "id-3"].map((id) => join(t, store, { id }));
  for (const one of twins) one.announce("same:8080");
  const ids = ({ list }: Members) => [...new Set(list.map(({ id }) => id))].sort().join();
  for (const one of twins)
    await until("all are known", () => ids(one) === "id-1,id-2,id-3" && one.list.length === 3);
});

test("a process that was restarted replaces its old record without a warning", async (t) => {
  const store = memoryStore();
  const left = {
    group: "default",
    address: "node1:8080",
    hostname: "node1",
    services: {},
    id: "id-0",
  };
  const key = "/peers/aperture-agent/default/node1:8080";
  const op = { kind: "put", key, value: writeMember(left) } as const;
  await store.commit([op], { lease: await store.lease() });
  const one = join(t, store);
  await one.known;
  one.announce("node1:8080");
  await until("its record is there", () => one.list[0]?.id === "id-1");
  assert.deepEqual(one.lines, []);
});

test("a store that takes nothing is tried again, and the last record counts", async (t) => {
  const store = memoryStore();
  const clock = fakeClock();
  let away = true;
  const reports: (string | undefined)[] = [];
  const leased = {
    ...store,
    watch: store.watch.bind(store),
    commit: store.commit.bind(store),
    lease: async () => {
      if (away) throw new Fault("UNAVAILABLE", "no server answers");
      return store.lease();
    },
  } as unknown as Store;
  const one = join(t, leased, { clock, announced: (fault) => reports.push(fault?.message) });
  one.announce("node1:8080");
  await until("the failure is known", () => reports.length === 1);
  one.register("counters", "node1:3320");
  away = false;
  clock.advance(1_000);
  await until("the record is there", () => one.list.length === 1);
  assert.deepEqual(one.list[0]?.services, { counters: "node1:3320" });
  assert.deepEqual(reports, ["no server answers", undefined]);
  assert.equal(one.lines.length, 1);
});

test("etcd: a lost lease brings the record back; a clean stop deletes it; a crash does within the lease", async (t) => {
  const etcd = await startEtcd(t);
  const settings = etcdSettings(etcd.endpoints, { lease_ttl: 2_000 });
  const all = followAll(t, openEtcd(t, settings));
  const one = join(t, openEtcd(t, settings));
  one.register("counters", "node1:3320");
  one.announce("node1:8080");
  await until("it is announced", () => all.list.length === 1);
  const [first] = all.list;

  const states: number[] = [];
  all.onChange(() => states.push(all.list.length));
  const [, lease = ""] = (await etcd.ctl("lease", "list")).split("\n");
  await etcd.ctl("lease", "revoke", lease);
  await until("it went and came back", () => states.includes(0) && all.list.length === 1);
  assert.deepEqual(all.list[0], first);

  const crashing = openEtcd(undefined, settings);
  const two = join(t, crashing, { hostname: "node2", id: "id-2" });
  two.announce("node2:8080");
  await until("the second is known", () => all.list.length === 2);
  // Closing the store revokes nothing: that is what the others see of a crash.
  await crashing.close();
  await until("its lease has expired", () => all.list.length === 1);
  const again = join(t, openEtcd(t, settings), { hostname: "node2", id: "id-3" });
  again.announce("node2:8080");
  await until("it is back", () => all.list[1]?.id === "id-3");

  await again.leave();
  await one.leave();
  assert.equal(await etcd.ctl("get", "--prefix", "aperture/peers", "--keys-only"), "");
});

test("etcd: a record that is gone with its lease when etcd comes back is written again", async (t) => {
  const etcd = await startEtcd(t);
  const settings = etcdSettings(etcd.endpoints, { lease_ttl: 1_000 });
  const store = openEtcd(t, settings);
  const one = join(t, store);
  one.announce("node1:8080");
  await until("it is announced", () => one.list.length === 1);
  await etcd.members[0]?.kill();
  const key = "aperture/peers/aperture-agent/default/node1:8080";
  await etcd.members[0]?.start();
  await etcd.ctl("del", key);
  const [, lease = ""] = (await etcd.ctl("lease", "list")).split("\n");
  if (lease !== "") await etcd.ctl("lease", "revoke", lease).catch(() => undefined);
  await until("it is written again", async () =>
    (await etcd.ctl("get", key, "--keys-only")).includes(key),
  );
  await until("and known", () => one.list.length === 1);
});
