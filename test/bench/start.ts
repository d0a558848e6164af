// How long a start takes, and what a server holds while nobody asks it anything.

import { once } from "node:events";
import { join } from "node:path";
import { JSON_PATH } from "./paths.ts";
import { say, times } from "./report.ts";
import { JSON_MESSAGE } from "./requests.ts";
import { median } from "./rounds.ts";
import { ask, freeTarget, pinned, sluiceCommand, startNoop, startSluice } from "./servers.ts";
import type { Size } from "./size.ts";
import type { Stage } from "./stage.ts";

const LIFE = join(import.meta.dirname, "life.ts");
const SETTLE_MS = 1_500;

export async function start({ folders }: Stage, size: Size): Promise<void> {
  const lives: number[] = [];
  const answers: number[] = [];
  for (let round = 0; round < size.starts; round++) {
    lives.push(await lifeOfImports());
    answers.push(await firstAnswer(folders.one));
  }
  const longer = median(answers.map((answer, round) => answer / (lives[round] ?? Number.NaN)));
  say("start to first answered check vs life of a process that imports", "≤ 4", times(longer));
  const { sluice, empty } = await idleMemory(folders.one);
  say("idle memory vs an empty grpc-js server", "≤ 1.6", times(sluice / empty));
}

/** Milliseconds from start to end of a process that imports the libraries and does nothing. */
async function lifeOfImports(): Promise<number> {
  const start = performance.now();
  const child = pinned([LIFE]);
  await once(child, "exit");
  return performance.now() - start;
}

/** Milliseconds from the start of a standalone Sluice to the answer to its first check. */
async function firstAnswer(policies: string): Promise<number> {
  const target = await freeTarget();
  const { flags, args, env } = sluiceCommand(target, policies);
  const start = performance.now();
  const child = pinned([...flags, ...args], env);
  let answer: string | undefined;
  while (answer === undefined && child.exitCode === null) {
    answer = await ask(target, JSON_PATH, JSON_MESSAGE).catch(() => undefined);
    if (answer === undefined) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const taken = performance.now() - start;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  if (answer === undefined) throw new Error("Sluice ended before its first answer");
  return taken;
}

/** Resident bytes of an idle Sluice that has answered one check, and of an empty gRPC server. */
async function idleMemory(policies: string) {
  const sluice = await startSluice({ target: await freeTarget(), policies });
  const empty = await startNoop("grpc-js", await freeTarget(), 0);
  await ask(sluice.target, JSON_PATH, JSON_MESSAGE);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const found = { sluice: sluice.resident(), empty: empty.resident() };
  await Promise.all([sluice.stop(), empty.stop()]);
  return found;
}
