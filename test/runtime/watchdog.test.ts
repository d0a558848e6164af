// Watching memory: when each policy has garbage collected, for the process, its control group and the machine.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { Health } from "#runtime/status/health.ts";
import { cgroupUsage, processUsage, systemUsage } from "#runtime/watchdog/usage.ts";
import { watchMemory } from "#runtime/watchdog/watchdog.ts";
import { fakeClock } from "../kit/clock.ts";
import { folderOf } from "../kit/folder.ts";
import { processOn } from "../kit/process.ts";
import { configOf } from "../kit/sluice/config.ts";
import { silentLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";

const KINDS = ["heap", "cgroup", "system"] as const;
const NODE = "system/liveness/job-group/job_groups/job-group/liveness/executor/watchdog";

/** A watchdog of a memory of 1000 bytes; `used` says how many are used at each look, collecting frees `freed`. */
function watching(t: TestContext, env: Readonly<Record<string, string>>, freed = 0) {
  const { config } = configOf("agent", env);
  const clock = fakeClock();
  const health = new Health(clock, config);
  t.after(() => health.close("cut"));
  const memory = { used: 0, short: 0, collected: [] as number[] };
  const source = () => ({ used: memory.used, limit: 1_000 });
  watchMemory({
    settings: config.watchdog.memory,
    liveness: health.liveness,
    log: silentLog(),
    short: () => {
      memory.short += 1;
    },
    usage: { heap: source, cgroup: source, system: source },
    collect: () => {
      memory.collected.push(memory.used);
      memory.used -= freed;
    },
  });
  const look = async (used: number) => {
    memory.used = used;
    clock.advance(10_000);
    await turn();
  };
  const status = () => String(health.root.find(NODE)?.view().status?.message?.value);
  return { memory, look, status, health };
}

for (const kind of KINDS) {
  const prefix = `SVC_AGENT_WATCHDOG_MEMORY_${kind.toUpperCase()}`;

  test(`${kind}: watermarks collect once for each that is passed, and never after the last`, async (t) => {
    const { memory, look, status, health } = watching(t, {
      [`${prefix}_WATERMARKS_POLICY_ENABLED`]: "true",
      [`${prefix}_WATERMARKS_POLICY_WATERMARKS`]: "[0.5,0.75,0.9]",
      // Watermarks take precedence.
      [`${prefix}_ADAPTIVE_POLICY_ENABLED`]: "true",
    });
    for (const used of [499, 500, 510, 749, 750, 800, 899, 950, 990, 1_000]) await look(used);
    assert.deepEqual(memory.collected, [500, 750, 950]);
    assert.match(status(), new RegExp(`^${kind}: `));
    assert.equal(health.root.find("system/liveness")?.firstError(), undefined);
  });

  test(`${kind}: the adaptive policy collects when usage has taken up a share of what was left`, async (t) => {
    const { memory, look } = watching(t, {
      [`${prefix}_ADAPTIVE_POLICY_ENABLED`]: "true",
      [`${prefix}_ADAPTIVE_POLICY_FACTOR`]: "0.5",
    });
    for (const used of [499, 500, 749, 750, 874, 875]) await look(used);
    assert.deepEqual(memory.collected, [500, 750, 875]);
  });
}

test("memory that stays short is reported with heap_profile, and not where collecting helps", async (t) => {
  const policy = {
    SVC_AGENT_WATCHDOG_MEMORY_HEAP_WATERMARKS_POLICY_ENABLED: "true",
    SVC_AGENT_WATCHDOG_MEMORY_HEAP_WATERMARKS_POLICY_WATERMARKS: "[0.5,0.9]",
  };
  const profile = { ...policy, SVC_AGENT_WATCHDOG_MEMORY_HEAP_PROFILE: "true" };
  for (const [env, freed, times] of [
    [policy, 0, 0],
    [profile, 0, 2],
    [profile, 400, 0],
  ] as const) {
    const { memory, look } = watching(t, env, freed);
    for (const used of [499, 500, 900]) await look(used);
    assert.equal(memory.short, times);
  }
});

test("heap_profile writes what is allocated to profilers.profiles_path, once in ten minutes", async (t) => {
  const folder = folderOf(t);
  const { clock, lines } = await processOn(t, "agent", {
    env: {
      WATCHDOG_MEMORY_HEAP_LIMIT: "1000000",
      WATCHDOG_MEMORY_HEAP_ADAPTIVE_POLICY_ENABLED: "true",
      WATCHDOG_MEMORY_HEAP_ADAPTIVE_POLICY_FACTOR: "0",
      WATCHDOG_MEMORY_HEAP_PROFILE: "true",
      PROFILERS_PROFILES_PATH: folder,
    },
  });
  const written = () => lines.filter(({ message }) => /what is allocated/.test(message)).length;
  let polls = 0;
  const next = (count: number) =>
    until("a profile is written", () => {
      // Now and then: sampling begins some time after the look, and ten minutes must not pass meanwhile.
      if (polls++ % 25 === 0) clock.advance(10_000);
      return written() === count;
    });
  await next(1);
  assert.deepEqual(readdirSync(folder), ["heap.prof"]);
  assert.equal(gunzipSync(readFileSync(join(folder, "heap.prof"))).includes("inuse_space"), true);
  clock.advance(10_000);
  await turn();
  assert.equal(written(), 1);
  clock.advance(600_000);
  await next(2);
  assert.equal(readdirSync(folder).length, 2);
});

test("without a policy nothing is watched", async (t) => {
  const { health } = watching(t, {});
  assert.equal(health.root.find(NODE), undefined);
});

for (const name of ["agent", "controller"] as const)
  test(`${name}: the job runs by watchdog.memory.job and has the real garbage collected above the real limit`, async (t) => {
    const { process, clock, lines } = await processOn(t, name, {
      env: {
        WATCHDOG_MEMORY_HEAP_LIMIT: "1000000",
        WATCHDOG_MEMORY_HEAP_WATERMARKS_POLICY_ENABLED: "true",
        WATCHDOG_MEMORY_JOB_EXECUTION_PERIOD: "3s",
      },
    });
    const shown = () => process.health.root.find(NODE)?.view().status?.timestamp;
    await until("garbage was collected", () =>
      lines.some(({ message }) =>
        /^heap: \d+ MiB of 1 MiB, \d+ MiB after collecting/.test(message),
      ),
    );
    const before = shown();
    clock.advance(2_999);
    await turn();
    assert.equal(shown(), before);
    clock.advance(1);
    await until("the job has run again", () => shown() !== before);
  });

test("usage of the process, of both versions of control groups, and of the machine", (t) => {
  const own = processUsage(0)();
  assert.equal(own?.limit, 268_435_456);
  assert.ok((own?.used ?? 0) > 0);
  const machine = systemUsage();
  assert.ok(machine !== undefined && machine.used > 0 && machine.used < machine.limit);
  const second = folderOf(t, { "memory.current": "70\n", "memory.max": "100\n" });
  assert.deepEqual(cgroupUsage(second)(), { used: 70, limit: 100 });
  writeFileSync(join(second, "memory.max"), "max\n");
  assert.equal(cgroupUsage(second)(), undefined);
  const first = folderOf(t, {});
  assert.equal(cgroupUsage(first)(), undefined);
  mkdirSync(join(first, "memory"));
  writeFileSync(join(first, "memory", "memory.usage_in_bytes"), "30\n");
  writeFileSync(join(first, "memory", "memory.limit_in_bytes"), "90\n");
  assert.deepEqual(cgroupUsage(first)(), { used: 30, limit: 90 });
  writeFileSync(join(first, "memory", "memory.limit_in_bytes"), "9223372036854771712\n");
  assert.equal(cgroupUsage(first)(), undefined);
});
