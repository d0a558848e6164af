// Duration of a start, and the memory of an idle server.

import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { JSON_PATH } from "../load/paths.ts";
import { JSON_MESSAGE } from "../load/requests.ts";
import { megabytes, printRow, times } from "../measure/report.ts";
import { median } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";
import { accepting, fetchBody, freeTarget, spawnPinned, startNoop } from "../servers/processes.ts";
import { sluiceCommand, startPlainSluice, startSluice } from "../servers/sluice.ts";
import { privateBytes, residentBytes } from "../servers/usage.ts";

const IMPORTS_ONLY = join(import.meta.dirname, "../servers/imports-only.ts");
const SAMPLES = join(import.meta.dirname, "../../../deploy/policies");
const SETTLE_MS = 1_500;
/** Time in which the first rules arrive, ms. */
const RULES_MS = 20_000;
const PORTS = ["DEBUG", "HEALTH_CHECK", "PPROF", "ZPAGES"].map((name) => `OTEL_PORTS_${name}_PORT`);

export async function start({ folders }: ServerPool, size: Size): Promise<void> {
  const importTimes: number[] = [];
  const answerTimes: number[] = [];
  for (let round = 0; round < size.starts; round++) {
    importTimes.push(await importMs());
    answerTimes.push(await firstAnswerMs(folders.one));
  }
  const ratios = answerTimes.map((answer, round) => answer / (importTimes[round] ?? Number.NaN));
  printRow(
    "start to first answered check vs a process that only imports",
    "≤ 4",
    times(median(ratios)),
  );
  const { sluice, empty } = await residentIdle(folders.one);
  printRow("idle memory vs an empty grpc-js server", "≤ 1.6", times(sluice / empty));
}

/** Lifetime of a process that imports the libraries and exits, in ms. */
async function importMs(): Promise<number> {
  const started = performance.now();
  await once(spawnPinned([IMPORTS_ONLY]), "exit");
  return performance.now() - started;
}

/** From the start of a standalone Sluice to the answer to its first check, in ms. */
async function firstAnswerMs(policies: string): Promise<number> {
  const target = await freeTarget();
  const { flags, args, env } = sluiceCommand({ target, policies });
  const started = performance.now();
  const child = spawnPinned([...flags, ...args], env);
  let answer: string | undefined;
  while (answer === undefined && child.exitCode === null) {
    answer = await fetchBody(target, JSON_PATH, JSON_MESSAGE).catch(() => undefined);
    if (answer === undefined) await wait(2);
  }
  const taken = performance.now() - started;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  if (answer === undefined) throw new Error("Sluice ended before its first answer");
  return taken;
}

/** Resident bytes of an idle Sluice that has answered one check, and of an empty gRPC server. */
async function residentIdle(policies: string) {
  const sluice = await startSluice({ target: await freeTarget(), policies });
  const empty = await startNoop("grpc-js", await freeTarget(), 0);
  await fetchBody(sluice.target, JSON_PATH, JSON_MESSAGE);
  await wait(SETTLE_MS);
  const found = { sluice: sluice.resident(), empty: empty.resident() };
  await Promise.all([sluice.stop(), empty.stop()]);
  return found;
}

/**
 * Private and resident memory of a Sluice with the sample policies that has answered one check, beside those of a Node
 * that does nothing.
 */
export async function idleMemory(): Promise<void> {
  // Fills the cache of compiled modules, as every earlier start has done on an operator's machine.
  const before = await startPlainSluice({ target: await freeTarget(), policies: SAMPLES });
  await before.stop();
  const sluice = await startPlainSluice({ target: await freeTarget(), policies: SAMPLES });
  const bare = spawnPinned(["--eval", "setInterval(() => {}, 60_000)"]);
  await fetchBody(sluice.target, JSON_PATH, JSON_MESSAGE);
  await wait(SETTLE_MS);
  const { pid } = bare;
  if (pid === undefined) throw new Error("the bare Node has no process");
  const besides = `private ${megabytes(privateBytes(pid))}, resident ${megabytes(residentBytes(pid))}`;
  const result = `${megabytes(sluice.private())} private, ${megabytes(sluice.resident())} resident`;
  printRow(
    "idle memory after one check",
    "≤ 55 MB, ≤ 110 MB",
    `${result}  (a bare Node: ${besides})`,
  );
  bare.kill("SIGKILL");
  await sluice.stop();
}

/** The same of an agent of its own, which has the sample policies from a controller over etcd. */
export async function agentMemory(): Promise<void> {
  const cleaning: (() => unknown)[] = [];
  try {
    const etcd = await startEtcd({ after: (clean) => void cleaning.push(clean) });
    const start = async (role: "agent" | "controller", ...more: readonly string[]) => {
      const target = await freeTarget();
      const { flags, args } = sluiceCommand({ target, policies: SAMPLES });
      const settings = {
        SERVER_LISTENER_ADDR: target,
        ETCD_ENDPOINTS: JSON.stringify(etcd.endpoints),
        LOG_LEVEL: "error",
        ...Object.fromEntries(PORTS.map((key) => [key, "0"])),
      };
      const env = Object.entries(settings).map(([key, value]) => [
        `SVC_${role.toUpperCase()}_${key}`,
        value,
      ]);
      const child = spawnPinned([...flags, args[0] ?? "", role, ...more], Object.fromEntries(env));
      const running = await accepting(child, target);
      cleaning.unshift(() => running.stop());
      return running;
    };
    await start("controller", "--policies", SAMPLES);
    // Fills the cache of compiled modules, as every earlier start has done on an operator's machine.
    await (await start("agent")).stop();
    const agent = await start("agent");
    const end = performance.now() + RULES_MS;
    const answered = () =>
      fetchBody(agent.target, JSON_PATH, JSON_MESSAGE).then(
        () => true,
        () => false,
      );
    while (!(await answered())) {
      if (performance.now() > end) throw new Error("the agent has no rules");
      await wait(50);
    }
    await wait(SETTLE_MS);
    printRow(
      "idle memory of an agent after one check",
      "≤ 50 MB, ≤ 100 MB",
      `${megabytes(agent.private())} private, ${megabytes(agent.resident())} resident`,
    );
  } finally {
    for (const clean of cleaning) await clean();
  }
}
