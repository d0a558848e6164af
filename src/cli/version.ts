// `sluice version`: the versions of Sluice and Node.

import { EXIT } from "#host/life/run.ts";
import { version } from "#host/status/info.ts";
import { type Command, readArgs } from "./command.ts";

export const versionCommand: Command = async (args, terminal) => {
  readArgs(args, {});
  terminal.out(`sluice ${version()}, Node ${process.versions.node}\n`);
  return EXIT.clean;
};
