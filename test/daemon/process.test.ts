// The parts that every process starts with, and gives back when it stops.

import assert from "node:assert/strict";
import { test } from "node:test";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import { Scope } from "#base/scope.ts";
import { startProcess, stopTimeLimit } from "#daemon/process.ts";
import { memoryStore } from "#store/memory.ts";
import { processContext } from "../kit/process-context.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";

test("a process exports the metrics of its ports, and closes its store when it stops", async () => {
  const scope = new Scope();
  const store = memoryStore();
  let closed = 0;
  const process = startProcess({
    configs: [configOf("controller", {})],
    store: Object.assign(store, { close: async () => void closed++ }),
    context: processContext(scope),
    chance: seededChance(1),
    log: { ...memoryLog(), close: async () => undefined },
  });
  const { body } = await process.metrics.scrape();
  assert.match(String(body), /^server_refused_connections_total\{/m);
  assert.equal(closed, 0);
  await scope.close("drain");
  assert.equal(closed, 1);
});

/** Takes what was logged about the store. */
const messages = ({ lines }: ReturnType<typeof memoryLog>) =>
  lines
    .splice(0)
    .map(({ message }) => message)
    .filter((message) => message.startsWith("the store"));

test("a store that is away, and one that answers, show in status, metric and log", async (t) => {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  let usable: (fault: Fault | undefined) => void = assert.fail;
  const process = startProcess({
    configs: [configOf("controller", {})],
    store: (context) => {
      ({ usable } = context);
      return memoryStore();
    },
    context: processContext(scope),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const away = new Fault("UNAVAILABLE", "nobody answers");
  const seen = [];
  for (const fault of [undefined, away, undefined, undefined]) {
    usable(fault);
    const { body } = await process.metrics.scrape();
    const degraded = /^sluice_dependency_degraded\{.*"store"\} (\d)$/m.exec(String(body))?.[1];
    seen.push([degraded, messages(log)]);
  }
  assert.deepEqual(seen, [
    ["0", []],
    ["1", ["the store cannot be used, and what is known stays in force: nobody answers"]],
    ["0", ["the store can be used again"]],
    ["0", []],
  ]);
});

test("a store that is away from the start is said to have given nothing, and then to answer", async (t) => {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  startProcess({
    configs: [configOf("controller", {})],
    store: ({ usable }) => {
      usable(new Fault("UNAVAILABLE", "nobody answers"));
      usable(undefined);
      return memoryStore();
    },
    context: processContext(scope),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  assert.deepEqual(messages(log), [
    "the store cannot be used, and nothing has been read from it: nobody answers",
    "the store can be used",
  ]);
});

test("a process may take the drain of its port, the grace after it and five seconds to stop", () => {
  const { config } = configOf("agent", {
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "2s",
    SVC_AGENT_SERVER_DRAIN_GRACE: "30s",
  });
  assert.equal(stopTimeLimit(config), 37_000);
});

test("settings without effect are logged: those of the first tree as the process's, others as a part's", async (t) => {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  startProcess({
    configs: [
      configOf("agent", { SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0" }),
      configOf("controller", { SVC_CONTROLLER_SERVER_LISTENER_ADDR: "127.0.0.1:0" }),
    ],
    store: memoryStore(),
    context: processContext(scope),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const found = log.lines.filter(({ message }) => message.includes("server.listener.addr"));
  assert.equal(found.length, 1);
  assert.match(found[0]?.message ?? "", /^controller setting server\.listener\.addr has no effect/);
});

test("settings of a store have an effect in a process of its own, and none in standalone", async (t) => {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const agent = configOf("agent", { SVC_AGENT_ETCD_NAMESPACE: "other" });
  for (const [configs, remarks] of [
    [[agent], 0],
    [[agent, configOf("controller")], 1],
  ] as const) {
    const log = memoryLog();
    startProcess({
      configs,
      store: memoryStore(),
      context: processContext(scope),
      chance: seededChance(1),
      log: { ...log, close: async () => undefined },
    });
    const found = log.lines.filter(({ message }) => message.includes("etcd.namespace has no"));
    assert.equal(found.length, remarks);
  }
});

test("settings without effect for one reason are one warning", async (t) => {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const log = memoryLog();
  startProcess({
    configs: [
      configOf("agent", {
        SVC_AGENT_COUNTERS_ENGINE: "local",
        SVC_AGENT_DIST_CACHE_BIND_ADDR: ":1",
        SVC_AGENT_DIST_CACHE_REPLICA_COUNT: "2",
      }),
    ],
    store: memoryStore(),
    context: processContext(scope),
    chance: seededChance(1),
    log: { ...log, close: async () => undefined },
  });
  const found = log.lines.filter(({ message }) => message.includes("has no effect"));
  assert.deepEqual(
    found.map(({ message, fields }) => [message, fields]),
    [
      [
        "agent setting dist_cache.bind_addr has no effect: agents count for each other only with counters.engine: peers",
        {
          path: "dist_cache.bind_addr",
          where: "SVC_AGENT_DIST_CACHE_BIND_ADDR",
          also: ["dist_cache.replica_count"],
        },
      ],
    ],
  );
});
