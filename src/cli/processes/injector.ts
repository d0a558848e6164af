// `sluice injector`: the webhook that injects sidecars into pods.

import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import type { Command } from "../subcommands.ts";
import { serve } from "./serve.ts";

export const injectorCommand: Command<"injector"> = async ({ flags }, { env }) => {
  const config = loadInjector({ env, configPath: flags["config-path"] });
  return serve(config.injector.config, (options) => startInjectorProcess({ ...options, config }));
};
