// `sluice version`: what is running.

import { version } from "#host/info.ts";
import { EXIT } from "#host/run.ts";
import { type Command, readArgs } from "./command.ts";

export const versionCommand: Command = async (args, terminal) => {
  readArgs(args, {});
  terminal.out(`sluice ${version()}, Node ${process.versions.node}\n`);
  return EXIT.clean;
};
