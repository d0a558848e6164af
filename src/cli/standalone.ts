// `sluice standalone`: agent and controller in one process, policies from a directory.

import { Fault } from "#base/fault.ts";
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
  const config = loadStandalone({ env: terminal.env, configPath });
  const main = async (life: Parameters<Parameters<typeof run>[0]>[0]) => {
    await startStandalone({ config, policies, life, chance: realChance() });
    return undefined;
  };
  return run(main, surroundings(realClock()), { stopMs: drainBudget(config) });
};
