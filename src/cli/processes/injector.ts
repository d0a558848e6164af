// `sluice injector`: the webhook that injects sidecars into pods.

import { loadInjector } from "#injector/config.ts";
import { startInjectorProcess } from "#injector/process.ts";
import { type Command, readArgs } from "../command.ts";
import { serve } from "./serve.ts";

export const injectorCommand: Command = async (args, { env }) => {
  const { values } = readArgs(args, { "config-path": { type: "string" } });
  const config = loadInjector({ env, configPath: values["config-path"] });
  return serve(config.injector.config, (options) => startInjectorProcess({ ...options, config }));
};
