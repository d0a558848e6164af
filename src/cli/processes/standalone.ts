// `sluice standalone`: agent and controller in one process, with policies from directories.

import { Fault } from "#base/fault.ts";
import { loadStandalone, startStandalone } from "#standalone/standalone.ts";
import type { Command } from "../subcommands.ts";
import { policyDirectories, serve } from "./serve.ts";

export const standaloneCommand: Command<"standalone"> = async ({ flags }, { env }) => {
  const config = loadStandalone({ env, configPath: flags["config-path"] });
  const policies = await policyDirectories(flags.policies);
  // Policies that are given over the API end with this process.
  if (policies.length === 0 && !config.controller.config.policies.cr_watcher.enabled) {
    const wanted = "a directory of policy documents (or policies.cr_watcher.enabled)";
    throw new Fault("INVALID_ARGUMENT", `--policies: wanted ${wanted}, got nothing`);
  }
  return serve(config.agent.config, (options) => startStandalone({ ...options, config, policies }));
};
