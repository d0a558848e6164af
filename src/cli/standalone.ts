// `sluice standalone`: agent and controller in one process, policies from a directory.

import { readdir } from "node:fs/promises";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";
import { realChance, realClock } from "#host/clock.ts";
import { run } from "#host/run.ts";
import { surroundings } from "#host/surroundings.ts";
import { drainBudget, loadStandalone, startStandalone } from "#standalone/standalone.ts";
import { type Command, readArgs } from "./command.ts";

export const standaloneCommand: Command = async (args, terminal) => {
  const { values } = readArgs(args, {
    policies: { type: "string" },
    "config-path": { type: "string" },
  });
  const { policies, "config-path": configPath } = values;
  if (policies === undefined) {
    throw new Fault(
      "INVALID_ARGUMENT",
      "--policies: wanted a directory of policy documents, got nothing",
    );
  }
  await mustBeDirectory(policies);
  const config = loadStandalone({ env: terminal.env, configPath });
  const main = async (life: Parameters<Parameters<typeof run>[0]>[0]) => {
    await startStandalone({ config, policies, life, chance: realChance() });
    return undefined;
  };
  return run(main, surroundings(realClock()), { stopMs: drainBudget(config) });
};

/** Asked before anything starts, because only here it is known by which flag the directory was named. */
async function mustBeDirectory(path: string): Promise<void> {
  await readdir(path).catch((thrown: unknown) => {
    const wanted = `--policies: wanted a directory that can be read at ${path}`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${reasonOf(thrown)}`);
  });
}
