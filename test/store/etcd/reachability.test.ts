// When a store in etcd says that it can be used and that it cannot, to its owner and in the log.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { EtcdSettings, EtcdStore } from "#store/etcd.ts";
import { enableUsers, startEtcd } from "../../kit/etcd/cluster.ts";
import { startProxy } from "../../kit/etcd/proxy.ts";
import { etcdSettings, openEtcd } from "../../kit/etcd/store.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

/** A store, and all that it has said: what it can be used for, and its log. */
function telling(t: TestContext, settings: EtcdSettings) {
  const states: string[] = [];
  const log = memoryLog();
  const usable = (fault: Error | undefined) => void states.push(fault?.message ?? "usable");
  const store = openEtcd(t, { ...settings, log_level: "info" }, { usable, log });
  const lines = () => log.lines.map(({ level, message }) => `${level} ${message}`);
  return { store, states, lines };
}

/** Reads a watch in the background, until it is stopped. */
function watching(t: TestContext, store: EtcdStore, prefix: string) {
  const stop = new AbortController();
  let batches = 0;
  const ended = (async () => {
    for await (const _ of store.watch([prefix], stop.signal)) batches += 1;
  })();
  const end = async () => {
    stop.abort();
    await ended;
  };
  t.after(end);
  return { batches: () => batches, end };
}

test("says once that no server answers, with the first reason, and once that one does again", async (t) => {
  const etcd = await startEtcd(t);
  const [endpoint = ""] = etcd.endpoints;
  const ways = [await startProxy(t, endpoint), await startProxy(t, endpoint)];
  const [one = "", other = ""] = ways.map((way) => way.endpoint.replace("http://", ""));
  const settings = etcdSettings(ways.map((way) => way.endpoint));
  const { store, states, lines } = telling(t, settings);
  ways[0]?.cut();
  await store.list("/");
  assert.deepEqual(lines(), [`info etcd at ${other} answers`], "one server of two is enough");
  ways[1]?.cut();
  for (let times = 0; times < 3; times++)
    await assert.rejects(store.list("/", { timeoutMs: 100 }), { code: "UNAVAILABLE" });
  assert.equal(lines().length, 2);
  assert.match(lines()[1] ?? "", /^error no etcd server can be used: etcd at 127\.0\.0\.1:\d+: /);
  for (const way of ways) way.open();
  await store.list("/");
  assert.equal(lines().length, 3);
  assert.match(lines()[2] ?? "", new RegExp(`^info etcd at (${one}|${other}) answers$`));
  const [first, second = "", third] = states;
  assert.deepEqual([states.length, first, third], [3, "usable", "usable"]);
  assert.ok(lines()[1]?.endsWith(second), "the log and the owner hear the same reason");
});

test("says so when the first answer never comes", async (t) => {
  const { store, states, lines } = telling(t, etcdSettings(["127.0.0.1:1"]));
  await assert.rejects(store.list("/", { timeoutMs: 100 }), { code: "UNAVAILABLE" });
  assert.match(lines().join("\n"), /^error no etcd server can be used: etcd at 127\.0\.0\.1:1: /);
  assert.equal(lines().length, 1);
  assert.equal(states.length, 1);
  assert.match(states[0] ?? "", /^etcd at 127\.0\.0\.1:1: /);
});

test("a watch that etcd refuses makes the store unusable until it is followed again, or has ended", async (t) => {
  const etcd = await startEtcd(t);
  await enableUsers(etcd, { name: "ann", password: "secret" });
  const root = (...args: readonly string[]) => etcd.ctl("--user=root:root", ...args);
  const right = (verb: string, ...kind: readonly string[]) =>
    root("role", verb, "sluice", "--prefix=true", ...kind, "aperture");
  const user = etcdSettings(etcd.endpoints, { username: "ann", password: "secret" });
  const { store, states } = telling(t, user);
  const [first, second] = [watching(t, store, "/a/"), watching(t, store, "/b/")];
  await until("both follow", () => first.batches() + second.batches() === 2);
  await until("both have opened", () => store.counts.opened === 2);
  assert.deepEqual(states, ["usable"]);
  const [member] = etcd.members;
  /** A watch that is open outlives its right: it is asked again on a new stream. */
  const reopen = async () => {
    await member?.kill();
    await member?.start();
  };
  await right("revoke-permission");
  await reopen();
  const refused = () => states.at(-1)?.includes("permission denied") === true;
  await until("the store cannot be used", refused);
  await first.end();
  await until("the other one is refused, too", refused);
  await right("grant-permission", "readwrite");
  // Nothing has changed under its keys.
  await until("the store can be used", () => states.at(-1) === "usable");
  await right("revoke-permission");
  await reopen();
  await until("it cannot again", refused);
  await second.end();
  assert.equal(states.at(-1), "usable", "nobody is refused");
  for (const [at, state] of states.entries()) assert.notEqual(state, states[at + 1]);
});

test("etcd.log_level: what the client itself logs", async (t) => {
  for (const [log_level, wanted] of [
    ["debug", ["debug", "error"]],
    ["", ["error"]],
    ["fatal", ["error"]],
  ] as const) {
    const log = memoryLog();
    const store = openEtcd(t, etcdSettings(["127.0.0.1:1"], { log_level }), { log });
    await assert.rejects(store.list("/", { timeoutMs: 100 }), { code: "UNAVAILABLE" });
    const levels = new Set(log.lines.map(({ level }) => level));
    assert.deepEqual([...levels].sort(), wanted, log_level);
    const calls = log.lines.filter(({ message }) => message === "called etcd");
    assert.equal(calls.length > 0, log_level === "debug");
    for (const { fields } of calls)
      assert.deepEqual([fields["server"], fields["call"]], ["127.0.0.1:1", "KV/Range"]);
  }
});
