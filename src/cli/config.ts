// `sluice agent config`, `sluice controller config` and `sluice injector config`: the settings in force, and the source of each.

import { loadConfig } from "#config/load.ts";
import { printJson, printYaml } from "#config/print.ts";
import type { ProcessName } from "#config/tree.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { Command } from "./subcommands.ts";

export function configCommand<P extends ProcessName>(process: P): Command<`${P} config`> {
  return async ({ flags }, terminal) => {
    const loaded = loadConfig(process, { env: terminal.env, configPath: flags["config-path"] });
    terminal.out((flags.json ? printJson : printYaml)(loaded, terminal.env));
    return EXIT.clean;
  };
}
