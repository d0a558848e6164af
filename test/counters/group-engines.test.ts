// Agents of one group whose counters are in different places, which each of them reports.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { SharedCountersOptions } from "#counters/engine.ts";
import type { EngineName } from "#counters/group-engines.ts";
import { COUNTER_SERVICES, watchEngines } from "#counters/group-engines.ts";
import { openSharedCounters } from "#counters/open-counters.ts";
import type { CountersSettings } from "#counters/settings.ts";
import { JoinedGroup } from "#fleet/joined-group.ts";
import type { OwnGroup } from "#fleet/members.ts";
import { realClock } from "#runtime/life/clock.ts";
import { memoryStore } from "#store/memory.ts";
import type { Store } from "#store/store.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";

function agent(t: TestContext, store: Store, name: string, engine: EngineName, id = name) {
  const log = memoryLog();
  const group = new JoinedGroup({
    store,
    group: "g",
    hostname: name,
    id,
    clock: realClock(),
    log,
    announced: () => undefined,
  });
  t.after(() => group.close());
  if (engine !== "local") group.register(COUNTER_SERVICES[engine], "127.0.0.1:1");
  const said: (string | undefined)[] = [];
  t.after(watchEngines(engine, group, log, (others) => said.push(others)));
  group.announce(`${name}:1`);
  const lines = () => log.lines.map(({ message }) => message);
  return { group, said, lines };
}

test("agents name those that use another engine, until there are none", async (t) => {
  const store = memoryStore();
  const a = agent(t, store, "a", "peers");
  const b = agent(t, store, "b", "peers");
  const foreign = agent(t, store, "foreign", "local", "");
  await until("all are known", () => a.group.list.length === 3);
  assert.deepEqual([...a.said, ...b.said], [], "of other implementations nothing is known");
  await foreign.group.leave();
  const c = agent(t, store, "c", "redis");
  const d = agent(t, store, "d", "local");
  const apart = "agents of the group count apart from this one, whose counters.engine is";
  const local = "counts for itself, or does not share yet";
  await until("they are named", () => a.said.at(-1)?.includes("d:1") ?? false);
  assert.equal(a.said.at(-1), `${apart} peers: c:1 (redis), d:1 (${local})`);
  await until("by the others, too", () => c.said.at(-1)?.includes("d:1") ?? false);
  assert.equal(c.said.at(-1), `${apart} redis: a:1 (peers), b:1 (peers), d:1 (${local})`);
  await until("and by one that counts for itself", () => d.said.at(-1)?.includes("c:1") ?? false);
  await c.group.leave();
  await d.group.leave();
  await until("all are alike", () => a.said.length > 1 && a.said.at(-1) === undefined);
  assert.equal(a.lines().filter((line) => line.startsWith(apart)).length, 1);
  assert.ok(a.lines().includes("all agents of the group use the engine peers now"));
});

test("a process that counts for itself stops looking at the others when its counters are closed", async () => {
  const listeners = new Set<() => void>();
  const members: Partial<OwnGroup> = {
    list: [],
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const options = {
    byDefault: "local",
    members,
    log: memoryLog(),
  } as unknown as SharedCountersOptions;
  const opened = await openSharedCounters({ engine: "auto" } as CountersSettings, options);
  assert.equal(opened.counters, undefined);
  assert.equal(listeners.size, 1);
  await opened.close();
  assert.equal(listeners.size, 0);
});
