// A store in etcd when etcd, the way to it or the right to use it goes away.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { EtcdSettings, EtcdStore } from "#store/etcd.ts";
import type { StoreUpdate } from "#store/store.ts";
import { enableUsers, startEtcd } from "../kit/etcd/cluster.ts";
import { startProxy } from "../kit/etcd/proxy.ts";
import { etcdSettings, openEtcd } from "../kit/etcd/store.ts";
import { folderOf } from "../kit/folder.ts";
import { authority } from "../kit/servers/tls.ts";
import { until } from "../kit/until.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const put = (key: string, value: string) => ({ kind: "put", key, value: bytes(value) }) as const;
const drop = (key: string) => ({ kind: "delete", key }) as const;

/** Follows `/k/` in the background: the state as the reader has it, and every key that it was told of. */
function following(t: TestContext, store: EtcdStore) {
  const stop = new AbortController();
  const state = new Map<string, string>();
  const told: string[] = [];
  let batches = 0;
  let resets = 0;
  const ended = (async () => {
    for await (const { puts, deletes, reset = false } of store.watch(["/k/"], stop.signal)) {
      batches += 1;
      if (reset) resets += 1;
      for (const { key, value } of puts) state.set(key, new TextDecoder().decode(value));
      for (const key of deletes) state.delete(key);
      told.push(...puts.map(({ key }) => key), ...deletes.map((key) => `-${key}`));
    }
  })();
  t.after(async () => {
    stop.abort();
    await ended.catch(() => undefined);
  });
  return { state, told, ended, batches: () => batches, resets: () => resets };
}

/** An etcd with keys 0 to 9, a store that reaches it through a proxy and follows, and one that reaches it directly. */
async function throughProxy(t: TestContext, flags: readonly string[] = []) {
  const etcd = await startEtcd(t, { flags });
  const [endpoint = ""] = etcd.endpoints;
  const proxy = await startProxy(t, endpoint);
  const direct = openEtcd(t, etcdSettings(etcd.endpoints));
  await direct.commit(Array.from({ length: 10 }, (_, at) => put(`/k/${at}`, "old")));
  const store = openEtcd(t, etcdSettings([proxy.endpoint]));
  const reader = following(t, store);
  await until("the reader has all", () => reader.state.size === 10);
  await until("the watch is open", () => store.counts.opened === 1);
  reader.told.length = 0;
  return { etcd, proxy, direct, store, reader };
}

for (const way of ["cut", "swallow"] as const) {
  test(`a connection that is ${way} costs nothing but time: only what changed is delivered`, async (t) => {
    const { proxy, direct, store, reader } = await throughProxy(t);
    proxy[way]();
    await direct.commit([put("/k/1", "new"), drop("/k/2"), put("/k/new", "new")]);
    proxy.open();
    await until("the changes arrive", () => reader.told.length >= 3);
    assert.deepEqual(reader.told.sort(), ["-/k/2", "/k/1", "/k/new"]);
    assert.equal(store.counts.listed, 1, "the stream went on where it was");
    assert.ok(store.counts.opened > 1);
  });
}

test("a compaction while away is a difference, not a purge", async (t) => {
  const { etcd, proxy, direct, store, reader } = await throughProxy(t);
  proxy.cut();
  await direct.commit([put("/k/1", "passing"), put("/k/3", "new")]);
  await direct.commit([put("/k/1", "new"), drop("/k/2"), put("/k/brief", "x")]);
  await direct.commit([drop("/k/brief")]);
  await etcd.compact();
  proxy.open();
  await until("the changes arrive", () => reader.told.length >= 3);
  assert.deepEqual(reader.told.sort(), ["-/k/2", "/k/1", "/k/3"]);
  assert.equal(reader.state.get("/k/1"), "new");
  assert.equal(store.counts.listed, 2);
});

test("progress notifications keep a quiet watch ahead of compactions", async (t) => {
  const flag = "--experimental-watch-progress-notify-interval=100ms";
  const { etcd, proxy, direct, store, reader } = await throughProxy(t, [flag]);
  // Others write, under keys that this watch does not follow.
  for (let at = 0; at < 5; at++) await direct.commit([put("/other", String(at))]);
  // The connection is quiet but for notifications. The first one may be from before the last write.
  const before = proxy.pieces();
  await until(
    "a notification at the present revision has come",
    () => proxy.pieces() >= before + 2,
  );
  await etcd.compact();
  proxy.cut();
  proxy.open();
  await until("the watch is open again", () => store.counts.opened > 1);
  await direct.commit([put("/k/1", "new")]);
  await until("the change arrives", () => reader.told.length > 0);
  assert.deepEqual(reader.told, ["/k/1"]);
  assert.equal(store.counts.listed, 1);
});

test("what is too large for one message comes in fragments, and a list in pages", async (t) => {
  const { proxy, direct, store, reader } = await throughProxy(t);
  proxy.cut();
  const large = "x".repeat(1_000_000);
  for (let at = 0; at < 40; at++) await direct.commit([put(`/k/large-${at}`, large)]);
  proxy.open();
  await until("all arrive", () => reader.state.size === 50);
  assert.equal(store.counts.listed, 1);
  // 40 MB in 50 entries exceed what is read at once; 2000 small entries exceed a page.
  assert.equal((await store.list("/k/")).entries.length, 50);
  for (let from = 0; from < 2_000; from += 500)
    await direct.commit(Array.from({ length: 500 }, (_, at) => put(`/many/${from + at}`, "x")));
  const { entries } = await store.list("/many/");
  assert.equal(new Set(entries.map(({ key }) => key)).size, 2_000);
});

test("a reader that lags holds one entry for each key, however many changes there were", async (t) => {
  const { direct } = await throughProxy(t);
  const stop = new AbortController();
  const watch = direct.watch(["/hot/"], stop.signal)[Symbol.asyncIterator]();
  await watch.next();
  for (let round = 0; round < 300; round++)
    await direct.commit(Array.from({ length: 5 }, (_, at) => put(`/hot/${at}`, String(round))));
  const seen: StoreUpdate[] = [];
  let last = "";
  while (last !== "299") {
    const batch: StoreUpdate = (await watch.next()).value;
    seen.push(batch);
    last = new TextDecoder().decode(batch.puts.at(-1)?.value);
    assert.ok(batch.puts.length <= 5);
  }
  assert.ok(seen.length < 300, "changes were merged");
  stop.abort();
  await watch.return?.(undefined);
});

test("a member that is frozen and one that is killed are left for the others", async (t) => {
  const etcd = await startEtcd(t, { members: 3 });
  const store = openEtcd(t, etcdSettings(etcd.endpoints));
  await store.commit([put("/k/1", "old")]);
  const reader = following(t, store);
  await until("the reader has all", () => reader.state.size === 1);
  await etcd.members[0]?.freeze();
  await store.commit([put("/k/1", "while frozen")]);
  await until("the change arrives", () => reader.state.get("/k/1") === "while frozen");
  etcd.members[0]?.thaw();
  await until("the cluster is whole", () =>
    etcd.ctl("endpoint", "health").then(
      () => true,
      () => false,
    ),
  );
  await etcd.members[1]?.kill();
  await store.commit([put("/k/2", "while one is dead")]);
  await until("the change arrives", () => reader.state.size === 2);
  assert.deepEqual(
    reader.told.filter((key) => key.startsWith("-")),
    [],
  );
  assert.equal(store.counts.listed, 1);
});

test("a lost lease is made again, its keys are written again, and the owner hears of it", async (t) => {
  const etcd = await startEtcd(t);
  const store = openEtcd(t, etcdSettings(etcd.endpoints, { lease_ttl: 2_000 }));
  let remade = 0;
  const lease = await store.lease({ remade: () => void remade++ });
  await store.commit([put("/peer", "mine"), put("/other", "mine")], { lease });
  await store.commit([put("/other", "no longer leased")]);
  const [id = ""] = /^[0-9a-f]{10,}$/m.exec(await etcd.ctl("lease", "list")) ?? [];
  await etcd.ctl("lease", "revoke", id);
  await until("the lease is made again", () => remade === 1);
  const { entries } = await store.list("/peer");
  assert.equal(new TextDecoder().decode(entries[0]?.value), "mine");
  const keys = await etcd.ctl("get", "aperture/peer", "-w", "json");
  assert.notEqual(JSON.parse(keys).kvs[0].lease ?? 0, 0, "under a lease again");
  await lease.revoke();
  assert.deepEqual(
    (await store.list("/")).entries.map(({ key }) => key),
    ["/other"],
  );
});

for (const [name, commits] of [
  ["is behind what was known", 0],
  ["has overtaken what was known", 30],
] as const) {
  test(`a store that lost its data says so, also if its revision ${name}`, async (t) => {
    const { etcd, proxy, store, reader } = await throughProxy(t);
    proxy.cut();
    const [member] = etcd.members;
    await member?.kill();
    member?.wipe();
    await member?.start();
    // A store of its own: the one from before goes on with what it knew.
    const writer = openEtcd(t, etcdSettings(etcd.endpoints));
    await writer.commit([put("/k/1", "again")]);
    for (let at = 0; at < commits; at++) await writer.commit([put("/other", String(at))]);
    assert.equal((await etcd.revision()) > commits, true);
    proxy.open();
    await until("the loss is seen", () => reader.resets() === 1);
    assert.deepEqual([...reader.state], [["/k/1", "again"]]);
    await writer.commit([put("/k/2", "new")]);
    await until("the reader follows again", () => reader.state.size === 2);
    assert.equal(reader.resets(), 1);
    assert.equal(store.counts.listed <= 3, true);
  });
}

test("what others delete is no loss, also if it is everything", async (t) => {
  const { etcd, proxy, direct, reader } = await throughProxy(t);
  proxy.cut();
  await direct.commit(Array.from({ length: 10 }, (_, at) => drop(`/k/${at}`)));
  await etcd.compact();
  proxy.open();
  await until("the deletes arrive", () => reader.state.size === 0);
  await direct.commit([put("/k/1", "new")]);
  await until("the change arrives", () => reader.state.size === 1);
  proxy.cut();
  await direct.commit([put("/k/1", "newer")]);
  proxy.open();
  await until("the change arrives", () => reader.state.get("/k/1") === "newer");
  assert.equal(reader.resets(), 0);
});

test("a token that is no longer valid is renewed, for calls and for watches", async (t) => {
  const etcd = await startEtcd(t);
  await enableUsers(etcd, { name: "ann", password: "secret" });
  const user = { username: "ann", password: "secret" };
  const store = openEtcd(t, etcdSettings(etcd.endpoints, user));
  const reader = following(t, store);
  await store.commit([put("/k/1", "old")]);
  await until("the change arrives", () => reader.state.size === 1);
  // A server forgets its tokens when it ends.
  await etcd.members[0]?.kill();
  await etcd.members[0]?.start();
  await store.commit([put("/k/2", "new")]);
  await until("the change arrives", () => reader.state.size === 2);
});

test("what etcd refuses is said plainly, with the server and without the password", async (t) => {
  const etcd = await startEtcd(t);
  const [{ address } = { address: "" }] = etcd.members;
  await enableUsers(etcd, { name: "ann", password: "secret" });
  const rejects = async (
    changed: Parameters<typeof etcdSettings>[1],
    code: string,
    text: RegExp,
  ) => {
    const store = openEtcd(t, etcdSettings(etcd.endpoints, changed));
    const watch = store.watch(["/k/"], new AbortController().signal)[Symbol.asyncIterator]();
    const says = (thrown: { code: string; message: string }) => {
      assert.equal(thrown.code, code);
      assert.ok(thrown.message.startsWith(`etcd at ${address}: `), thrown.message);
      assert.match(thrown.message, text);
      assert.doesNotMatch(thrown.message, /hunter2/);
      return true;
    };
    // Together: which of them is refused first is not certain.
    const calls = [store.commit([put("/k/1", "x")]), store.list("/"), watch.next()];
    await Promise.all(calls.map((call) => assert.rejects(call, says)));
  };
  const wrong = { username: "ann", password: "hunter2" };
  await rejects(wrong, "UNAUTHENTICATED", /refused etcd\.username and etcd\.password/);
  await rejects({}, "UNAUTHENTICATED", /set etcd\.username and etcd\.password/);
  const elsewhere = { username: "ann", password: "secret", namespace: "others" };
  await rejects(elsewhere, "PERMISSION_DENIED", /permission denied/);
});

test("a full database is reported", async (t) => {
  const etcd = await startEtcd(t, { flags: ["--quota-backend-bytes=2000000"] });
  const store = openEtcd(t, etcdSettings(etcd.endpoints));
  const fill = async () => {
    for (let at = 0; at < 20; at++) await store.commit([put(`/k/${at}`, "x".repeat(1_000_000))]);
  };
  await assert.rejects(fill, { code: "RESOURCE_EXHAUSTED", message: /^etcd at .*NOSPACE/ });
});

test("endpoints are tried in turn, and the fault names one when none answers", async (t) => {
  const etcd = await startEtcd(t);
  let isUsable: boolean | undefined;
  const usable = (fault: Error | undefined) => {
    isUsable = fault === undefined;
  };
  const dead = "127.0.0.1:1";
  const settings = etcdSettings([dead, ...etcd.endpoints], { namespace: "own" });
  const store = openEtcd(t, settings, { usable });
  assert.ok((await store.commit([put("/k/1", "x")])) !== undefined);
  assert.match(await etcd.ctl("get", "--prefix", "own/k/"), /own\/k\/1/);
  assert.equal(isUsable, true);
  await etcd.members[0]?.kill();
  await assert.rejects(store.list("/"), {
    code: "UNAVAILABLE",
    message: /^etcd at 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
  });
  assert.equal(isUsable, false);
  await etcd.members[0]?.start();
  assert.equal((await store.list("/")).entries.length, 1);
  assert.equal(isUsable, true);
});

test("a scheme that does not fit the server is said to be the reason, without the time of the attempt", async (t) => {
  const root = authority(folderOf(t), "root");
  const secure = await startEtcd(t, {
    tls: { server: root.issue("server"), authorityFile: root.certFile },
  });
  const plain = await startEtcd(t);
  const refusal = async (endpoint: string, tls: Partial<EtcdSettings["tls"]> = {}) => {
    const settings = etcdSettings([endpoint]);
    const store = openEtcd(t, { ...settings, tls: { ...settings.tls, ...tls } });
    const list = store.list("/", { timeoutMs: 3_000 });
    const fault = await list.then(
      () => assert.fail("it answered"),
      (thrown: { readonly code: string; readonly message: string }) => thrown,
    );
    assert.equal(fault.code, "UNAVAILABLE");
    assert.doesNotMatch(fault.message, /\d{4}-\d\d-\d\dT/);
    return fault.message;
  };
  const [{ address: plainAddress } = { address: "" }] = plain.members;
  const [{ address: secureAddress } = { address: "" }] = secure.members;
  assert.match(
    await refusal(`https://${plainAddress}`, { ca_file: root.certFile }),
    /^etcd at 127\.0\.0\.1:\d+: cannot connect: .*; if the server does not speak TLS on this port, say http:\/\/ in etcd\.endpoints/,
  );
  assert.match(
    await refusal(`http://${secureAddress}`),
    /^etcd at 127\.0\.0\.1:\d+: cannot connect: .*; if the server speaks only TLS on this port, say https:\/\/ in etcd\.endpoints/,
  );
  assert.match(
    await refusal("http://127.0.0.1:1"),
    /cannot connect: connect ECONNREFUSED [\d.:]+$/,
  );
});

test("the keys of etcd.tls have their effect", async (t) => {
  const folder = folderOf(t);
  const root = authority(folder, "root");
  const other = authority(folder, "other");
  const tls = { server: root.issue("server"), authorityFile: root.certFile };
  const etcd = await startEtcd(t, { tls });
  const none = etcdSettings([]).tls;
  const keyLog = join(folder, "keys.log");
  const settings = (changed: Partial<typeof none>) =>
    etcdSettings(etcd.endpoints, { tls: { ...none, ...changed } });
  const trusting = openEtcd(t, settings({ ca_file: root.certFile, key_log_file: keyLog }));
  await trusting.commit([put("/k/1", "x")]);
  await until("session keys are logged", () => /^CLIENT_/.test(readFileSync(keyLog, "utf8")));
  const blind = openEtcd(t, settings({ insecure_skip_verify: true }));
  assert.equal((await blind.list("/k/")).entries.length, 1);
  const doubting = openEtcd(t, settings({ ca_file: other.certFile }));
  await assert.rejects(doubting.list("/k/"), { code: "UNAVAILABLE", message: /certificate/ });
});
