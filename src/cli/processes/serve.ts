// Runs one of the processes that serve until a signal stops them.

import { type ProcessOptions, type ProcessSettings, stopTimeLimit } from "#daemon/process.ts";
import { realChance, realClock } from "#runtime/life/clock.ts";
import { operatingSystem } from "#runtime/life/operating-system.ts";
import { run } from "#runtime/life/run.ts";

type Start = (options: Pick<ProcessOptions, "context" | "chance">) => Promise<unknown>;

/** Resolves to the exit code. `settings` are those of the process itself. */
export function serve(settings: ProcessSettings, start: Start): Promise<number> {
  const main = async (context: ProcessOptions["context"]) => {
    await start({ context, chance: realChance() });
    return undefined;
  };
  return run(main, operatingSystem(realClock()), { stopMs: stopTimeLimit(settings) });
}
