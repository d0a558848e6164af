// `sluice standalone`: agent and controller in one process, with policies from a directory.

import { Fault } from "#base/fault.ts";
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
  const policies = await policyDirectories(values.policies);
  // The policies that are given over the API end with this process.
  if (policies.length === 0 && !config.controller.config.policies.cr_watcher.enabled) {
    const wanted = "a directory of policy documents (or policies.cr_watcher.enabled)";
    throw new Fault("INVALID_ARGUMENT", `--policies: wanted ${wanted}, got nothing`);
  }
  return serve(config.agent.config, (options) => startStandalone({ ...options, config, policies }));
};
