// `sluice agent`: an agent that shares a store with a controller in another process.

import { startAgentProcess } from "#agent/process.ts";
import { loadConfig } from "#config/load.ts";
import { type Command, readArgs } from "../command.ts";
import { serve } from "./serve.ts";
import { sharedStore } from "./shared-store.ts";

export const agentCommand: Command = async (args, { env }) => {
  const { values } = readArgs(args, { "config-path": { type: "string" } });
  const config = loadConfig("agent", { env, configPath: values["config-path"] });
  const store = await sharedStore(config);
  return serve(config.config, (options) => startAgentProcess({ ...options, config, store }));
};
