// Duration of a start, and the memory of an idle server.

import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { JSON_PATH } from "../load/paths.ts";
import { JSON_MESSAGE } from "../load/requests.ts";
import { megabytes, printRow, times } from "../measure/report.ts";
import { median } from "../measure/rounds.ts";
import type { Size } from "../measure/size.ts";
import type { ServerPool } from "../servers/pool.ts";
import { fetchBody, freeTarget, spawnPinned, startNoop } from "../servers/processes.ts";
import { sluiceCommand, startPlainSluice, startSluice } from "../servers/sluice.ts";
import { privateBytes, residentBytes } from "../servers/usage.ts";

const IMPORTS_ONLY = join(import.meta.dirname, "../servers/imports-only.ts");
const SETTLE_MS = 1_500;

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

/** Private and resident memory of a Sluice that has answered one check, beside those of a Node that does nothing. */
export async function idleMemory({ folders }: ServerPool): Promise<void> {
  // Fills the cache of compiled modules, as every earlier start has done on an operator's machine.
  const before = await startPlainSluice({ target: await freeTarget(), policies: folders.one });
  await before.stop();
  const sluice = await startPlainSluice({ target: await freeTarget(), policies: folders.one });
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
