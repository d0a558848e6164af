// `sluice standalone`: agent and controller in one process, with policies from a directory.

import { loadStandalone, startStandalone } from "#standalone/standalone.ts";
import { type Command, readArgs } from "../command.ts";
import { POLICIES, policyDirectories } from "./policies-flag.ts";
import { serve } from "./serve.ts";

export const standaloneCommand: Command = async (args, { env }) => {
  const { values } = readArgs(args, {
    ...POLICIES,
    "config-path": { type: "string" },
  });
  const config = loadStandalone({ env, configPath: values["config-path"] });
  const policies = await policyDirectories(values.policies, config.controller.config.policies);
  return serve(config.agent.config, (options) => startStandalone({ ...options, config, policies }));
};
