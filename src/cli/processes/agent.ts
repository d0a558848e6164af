// `sluice agent`: an agent that shares a store with a controller in another process.

import { startAgentProcess } from "#agent/process.ts";
import { loadConfig } from "#config/load.ts";
import type { Command } from "../subcommands.ts";
import { serve, sharedStore } from "./serve.ts";

export const agentCommand: Command<"agent"> = async ({ flags }, { env }) => {
  const config = loadConfig("agent", { env, configPath: flags["config-path"] });
  const store = await sharedStore(config);
  return serve(config.config, (options) => startAgentProcess({ ...options, config, store }));
};
