// `sluice controller`: a controller that shares a store with agents in other processes.

import { loadConfig } from "#config/load.ts";
import { startControllerProcess } from "#controller/process.ts";
import type { Command } from "../subcommands.ts";
import { policyDirectories, serve, sharedStore } from "./serve.ts";

export const controllerCommand: Command<"controller"> = async ({ flags }, { env }) => {
  const config = loadConfig("controller", { env, configPath: flags["config-path"] });
  const store = await sharedStore(config);
  const policies = await policyDirectories(flags.policies);
  return serve(config.config, (options) =>
    startControllerProcess({ ...options, config, store, policies }),
  );
};
