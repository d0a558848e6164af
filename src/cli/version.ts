// `sluice version`: the versions of Sluice and Node.

import { EXIT } from "#runtime/life/run.ts";
import { version } from "#runtime/status/info.ts";
import { type Command, readArgs } from "./command.ts";

export const versionCommand: Command = async (args, terminal) => {
  const { values } = readArgs(args, { json: { type: "boolean", default: false } });
  const facts = {
    version: version(),
    node: process.versions.node,
    platform: process.platform,
    arch: process.arch,
  };
  terminal.out(
    values.json ? `${JSON.stringify(facts)}\n` : `sluice ${facts.version}, Node ${facts.node}\n`,
  );
  return EXIT.clean;
};
