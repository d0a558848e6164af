// `sluice inject FILE --dry-run`: what injection would make of the pods in manifests.

import { Fault } from "#base/fault.ts";
import { injectManifests } from "#injector/dry-run.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { Command } from "../subcommands.ts";
import { readSource } from "../terminal.ts";

const MAX_BYTES = 8 * 1024 * 1024;

export const injectCommand: Command<"inject"> = async ({ flags, operands }, terminal) => {
  const [file, ...more] = operands;
  if (file === undefined || more.length > 0)
    throw new Fault("INVALID_ARGUMENT", `wanted one FILE, got ${operands.length}`);
  if (flags["dry-run"] !== true)
    throw new Fault(
      "INVALID_ARGUMENT",
      "wanted --dry-run: the webhook alone injects into a cluster",
    );
  const manifests = await readSource(terminal, file, MAX_BYTES);
  const { yaml, notes, isRefused } = injectManifests(manifests, file, {
    env: terminal.env,
    configPath: flags["config-path"],
  });
  for (const note of notes) terminal.err(`${note}\n`);
  terminal.out(yaml);
  return isRefused ? EXIT.refused : EXIT.clean;
};
