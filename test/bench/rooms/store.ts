// Measures following a real etcd: how soon an agent has 10 000 rules, and what a watch of 10 000 keys of 5 kB (50 MB) costs
// in memory while 1 000 of them change each second. `node --expose-gc test/bench/rooms/store.ts` prints; nothing is asserted.

import { type ChildProcess, fork } from "node:child_process";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { follow } from "#agent/rules/follow.ts";
import { seededChance } from "#base/chance.ts";
import { NO_OBSERVER } from "#flow/observer.ts";
import { Rulebook } from "#flow/rulebook.ts";
import { realClock } from "#runtime/life/clock.ts";
import type { Op, Store } from "#store/store.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { etcdSettings, openEtcd } from "../../kit/etcd/store.ts";

const KEYS = 10_000;
const BYTES = 5_000;
const CHANGES_A_SECOND = 1_000;
const SECONDS = 20;
const [role, endpoint = ""] = process.argv.slice(2);

const print = (line: string) => void process.stdout.write(`${line}\n`);
const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;

function large(key: number): Op {
  const value = new Uint8Array(BYTES).fill(Math.floor(Math.random() * 256));
  return { kind: "put", key: `/large/${key}`, value };
}

/** The writer is a process of its own, so that the memory of this one is the reader's. */
async function write(): Promise<void> {
  const store = openEtcd(undefined, etcdSettings([endpoint]));
  for (let from = 0; from < KEYS; from += 250)
    await store.commit(Array.from({ length: 250 }, (_, at) => large(from + at)));
  process.send?.("written");
  await new Promise((resolve) => process.once("message", resolve));
  const start = performance.now();
  let made = 0;
  while (made < SECONDS * CHANGES_A_SECOND) {
    const due = ((performance.now() - start) / 1_000) * CHANGES_A_SECOND;
    if (made >= due) await sleep(5);
    else {
      await store.commit(Array.from({ length: 50 }, () => large(Math.floor(Math.random() * KEYS))));
      made += 50;
    }
  }
  await store.commit([{ kind: "put", key: "/large/end", value: new Uint8Array() }]);
  const rate = Math.round(made / ((performance.now() - start) / 1_000));
  process.send?.(`${made} changes written, ${rate} a second`);
  await store.close();
}

const said = (child: ChildProcess) =>
  new Promise<string>((resolve) => child.once("message", (message) => resolve(String(message))));

function memory(): { readonly now: () => number; readonly rss: () => number } {
  return {
    now: () => {
      globalThis.gc?.();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    },
    rss: () => process.memoryUsage().rss,
  };
}

async function followLarge(endpoints: readonly string[]): Promise<void> {
  const child = fork(import.meta.filename, ["writer", endpoints[0] ?? ""]);
  await said(child);
  const store = openEtcd(undefined, etcdSettings(endpoints));
  const { now, rss } = memory();
  const before = now();
  const stop = new AbortController();
  const rate = said(child);
  let batches = 0;
  let entries = 0;
  let peak = 0;
  for await (const { puts } of store.watch(["/large/"], stop.signal)) {
    batches += 1;
    entries += puts.length;
    if (batches === 1) {
      print(`watch: ${puts.length} keys listed; held afterwards: ${megabytes(now() - before)}`);
      child.send("go");
    }
    peak = Math.max(peak, rss());
    if (puts.some(({ key }) => key === "/large/end")) stop.abort();
  }
  print(`watch: ${await rate}`);
  const shown = `${entries - KEYS - 1} delivered in ${batches} batches, ${store.counts.listed} list`;
  print(`watch: ${shown}; held: ${megabytes(now() - before)}, highest RSS ${megabytes(peak)}`);
  await store.close();
}

async function publishRules(store: Store): Promise<void> {
  const ops = Array.from({ length: KEYS }, (_, at) => {
    const config = {
      kind: "rate_limiter",
      name: `root.${at}`,
      agentGroups: ["default"],
      message: {
        selectors: [{ control_point: `point-${at % 100}`, agent_group: "default", service: "any" }],
        parameters: { interval: "1s", limit_by_label_key: "user" },
      },
    } as const;
    return [...configEntries({ name: "p", hash: "h", configs: [config] })];
  }).flat();
  await store.commit(ops.map(([key, value]) => ({ kind: "put", key, value })));
}

/** In a process of its own: an agent that has just started, whose code no compiler has made fast yet. */
async function readRules(): Promise<void> {
  const clock = realClock();
  const context = { clock, chance: seededChance(1), observer: NO_OBSERVER, maxKeys: 1_000 };
  const book = new Rulebook("default", context);
  const store = openEtcd(undefined, etcdSettings([endpoint]));
  const stop = new AbortController();
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const start = performance.now();
  const before = process.cpuUsage();
  const log = { trace: undefined, debug: undefined };
  const options = { store, group: "default", book, clock, log, kept: () => undefined };
  const { ready, ended } = follow({ ...options, signal: stop.signal, applied: () => undefined });
  await ready;
  const took = Math.round(performance.now() - start);
  const { user, system } = process.cpuUsage(before);
  await sleep(10);
  const pause = Math.round(delays.max / 1e6);
  const spent = `${Math.round((user + system) / 1e3)} ms of processor time, longest pause ${pause} ms`;
  process.send?.(`${book.rules.size} rules in force after ${took} ms, ${spent}`);
  stop.abort();
  await ended;
  await store.close();
}

async function followRules(endpoints: readonly string[]): Promise<void> {
  const publisher = openEtcd(undefined, etcdSettings(endpoints));
  await publishRules(publisher);
  for (let round = 1; round <= 3; round++) {
    const child = fork(import.meta.filename, ["reader", endpoints[0] ?? ""]);
    print(`agent that has just started: ${await said(child)} (goal: 2000 ms)`);
  }
  await publisher.close();
}

if (role === "writer") await write();
else if (role === "reader") await readRules();
else {
  const ends: (() => unknown)[] = [];
  const ending = { after: (end: () => unknown) => void ends.push(end) };
  try {
    const { endpoints } = await startEtcd(ending);
    await followRules(endpoints);
    await followLarge(endpoints);
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
process.exit();
