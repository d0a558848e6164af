// Runs one of the processes that serve until a signal stops them.

import { realChance, realClock } from "#host/life/clock.ts";
import { operatingSystem } from "#host/life/operating-system.ts";
import { run } from "#host/life/run.ts";
import { type ProcessOptions, type ProcessSettings, stopTimeLimit } from "#process/process.ts";

type Start = (options: Pick<ProcessOptions, "context" | "chance">) => Promise<unknown>;

/** Resolves to the exit code. `settings` are those of the process itself. */
export function serve(settings: ProcessSettings, start: Start): Promise<number> {
  const main = async (context: ProcessOptions["context"]) => {
    await start({ context, chance: realChance() });
    return undefined;
  };
  return run(main, operatingSystem(realClock()), { stopMs: stopTimeLimit(settings) });
}
