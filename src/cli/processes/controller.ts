// `sluice controller`: a controller that shares a store with agents in other processes.

import { loadConfig } from "#config/load.ts";
import { startControllerProcess } from "#controller/process.ts";
import { type Command, readArgs } from "../command.ts";
import { POLICIES, policyDirectories } from "./policies-flag.ts";
import { serve } from "./serve.ts";
import { sharedStore } from "./shared-store.ts";

export const controllerCommand: Command = async (args, { env }) => {
  const { values } = readArgs(args, {
    ...POLICIES,
    "config-path": { type: "string" },
  });
  const config = loadConfig("controller", { env, configPath: values["config-path"] });
  const store = await sharedStore(config);
  const policies = await policyDirectories(values.policies);
  return serve(config.config, (options) =>
    startControllerProcess({ ...options, config, store, policies }),
  );
};
