// Fifty agents and three controllers over one etcd: they start, follow an edit, and lose their leader. Ten agents and the
// controllers are processes of their own; forty agents share this process. Times and memory are printed, not asserted.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { Scope } from "#base/scope.ts";
import { realChance } from "#runtime/life/clock.ts";
import { sharedStore } from "../../src/cli/processes/serve.ts";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { processContext } from "../kit/process-context.ts";
import { listening, type SluiceChild, startSluice } from "../kit/servers/sluice.ts";
import { passes } from "../kit/sluice/check.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

const PROCESSES = 10;
const IN_PROCESS = 40;
/** Two slow processors give each of these processes little time. */
const LONGEST_WAIT_MS = 120_000;

/** Starts an agent in this process and returns its address. */
async function agentHere(scope: Scope, endpoints: readonly string[]): Promise<string> {
  const config = configOf("agent", {
    SVC_AGENT_ETCD_ENDPOINTS: JSON.stringify(endpoints),
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    ...Object.fromEntries(
      ["DEBUG", "HEALTH_CHECK", "PPROF", "ZPAGES"].map((port) => [
        `SVC_AGENT_OTEL_PORTS_${port}_PORT`,
        "0",
      ]),
    ),
  });
  const { main } = await startAgentProcess({
    config,
    store: await sharedStore(config),
    context: processContext(scope),
    chance: realChance(),
    log: { ...memoryLog(), close: async () => undefined },
  });
  return main.address;
}

/** Resident memory of a process in MiB. */
function residentMiB({ process: { pid } }: SluiceChild): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kib) / 1024;
}

const median = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

/** An agent that has no rules yet answers with an error. */
const passesOrWaits = (address: string, controlPoint: string) =>
  passes(address, controlPoint).catch(() => true);

test("fifty agents and three controllers follow one etcd, through an edit and the loss of the leader", async (t) => {
  const scope = new Scope();
  // Before etcd ends, which the agents would miss.
  t.after(() => scope.close("drain"));
  const { endpoints } = await startEtcd(t);
  const policies = folderOf(t, { "a.yaml": refusesAll("shop") });
  const controllers = Array.from({ length: 3 }, () =>
    startSluice(t, "controller", endpoints, ["--policies", policies]),
  );
  const own = Array.from({ length: PROCESSES }, () => startSluice(t, "agent", endpoints));
  const before = process.memoryUsage();
  const here = await Promise.all(
    Array.from({ length: IN_PROCESS }, () => agentHere(scope, endpoints)),
  );
  await listening(...own);
  const agents = [...own.map((each) => each.address()), ...here];
  assert.equal(new Set(agents).size, PROCESSES + IN_PROCESS);

  /**
   * Resolves with the milliseconds until every agent refuses. Asks one after the other: forty of them share this process,
   * and would have to answer instead of following the store.
   */
  const refusedEverywhere = async (controlPoint: string) => {
    const began = performance.now();
    for (const address of agents) {
      await until(
        `${address} refuses at ${controlPoint}`,
        async () => !(await passesOrWaits(address, controlPoint)),
        LONGEST_WAIT_MS,
      );
    }
    return Math.round(performance.now() - began);
  };
  await refusedEverywhere("shop");
  const leaders = () =>
    controllers.filter((each) => each.printed().includes("this controller leads"));
  assert.equal(leaders().length, 1, "one of three leads");

  writeFileSync(join(policies, "b.yaml"), refusesAll("bar"));
  t.diagnostic(
    `an edit was in force in all ${agents.length} agents after ${await refusedEverywhere("bar")} ms`,
  );

  const [leader = assert.fail()] = leaders();
  leader.kill("SIGKILL");
  await leader.ended;
  writeFileSync(join(policies, "c.yaml"), refusesAll("pub"));
  const afterLoss = await refusedEverywhere("pub");
  t.diagnostic(
    `an edit after the leader was killed (lease 2 s) was in force in all after ${afterLoss} ms`,
  );
  assert.equal(leaders().length, 2, "the killed one and the one that took over");
  for (const point of ["shop", "bar"]) await refusedEverywhere(point);

  const { rss, heapUsed } = process.memoryUsage();
  const each = (now: number, then: number) => ((now - then) / IN_PROCESS / 1024 / 1024).toFixed(1);
  t.diagnostic(`an agent of its own has ${median(own.map(residentMiB)).toFixed(0)} MiB resident`);
  t.diagnostic(
    `an agent more in one process needs ${each(rss, before.rss)} MiB resident, ${each(heapUsed, before.heapUsed)} MiB of heap`,
  );
});
