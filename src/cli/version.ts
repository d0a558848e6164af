// `sluice version`: the versions of Sluice and Node.

import { EXIT } from "#runtime/life/run.ts";
import { version } from "#runtime/status/info.ts";
import type { Command } from "./subcommands.ts";

export const versionCommand: Command<"version"> = async ({ flags }, terminal) => {
  const facts = {
    version: version(),
    node: process.versions.node,
    platform: process.platform,
    arch: process.arch,
  };
  terminal.out(
    flags.json ? `${JSON.stringify(facts)}\n` : `sluice ${facts.version}, Node ${facts.node}\n`,
  );
  return EXIT.clean;
};
