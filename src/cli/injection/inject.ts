// `sluice inject FILE --dry-run`: what injection would make of the pods in manifests.

import { Fault } from "#base/fault.ts";
import { injectManifests } from "#injector/dry-run.ts";
import { EXIT } from "#runtime/life/run.ts";
import { readTextFileOrPipe } from "#runtime/life/text-file.ts";
import { type Command, readArgs, readInput } from "../command.ts";

const MAX_BYTES = 8 * 1024 * 1024;
const OPTIONS = { "dry-run": { type: "boolean" }, "config-path": { type: "string" } } as const;

export const injectCommand: Command = async (args, terminal) => {
  const { values, positionals } = readArgs(args, OPTIONS, true);
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0)
    throw new Fault("INVALID_ARGUMENT", `wanted one FILE, got ${positionals.length}`);
  if (values["dry-run"] !== true)
    throw new Fault(
      "INVALID_ARGUMENT",
      "wanted --dry-run: the webhook alone injects into a cluster",
    );
  const manifests =
    file === "-" ? await readInput(terminal, MAX_BYTES) : await readTextFileOrPipe(file, MAX_BYTES);
  const { yaml, notes, isRefused } = injectManifests(manifests, file, {
    env: terminal.env,
    configPath: values["config-path"],
  });
  for (const note of notes) terminal.err(`${note}\n`);
  terminal.out(yaml);
  return isRefused ? EXIT.refused : EXIT.clean;
};
