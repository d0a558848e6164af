// `sluice agent config`, `sluice controller config` and `sluice injector config`: the settings in force, and the source of each.

import { loadConfig } from "#config/load.ts";
import { printJson, printYaml } from "#config/print.ts";
import type { ProcessName } from "#config/tree.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Command, readArgs } from "./command.ts";

export function configCommand(process: ProcessName): Command {
  return async (args, terminal) => {
    const { values } = readArgs(args, {
      "config-path": { type: "string" },
      json: { type: "boolean", default: false },
    });
    const loaded = loadConfig(process, { env: terminal.env, configPath: values["config-path"] });
    terminal.out((values.json ? printJson : printYaml)(loaded, terminal.env));
    return EXIT.clean;
  };
}
