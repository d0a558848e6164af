// `sluice decisions`: the last numbers that a controller has sent to agents.

import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Command, readArgs } from "../command.ts";
import { CONTROLLER_OPTIONS, openController } from "./ask.ts";

export const decisionsCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const [kind = "", ...more] = positionals;
  if (more.length > 0) {
    throw new Fault("INVALID_ARGUMENT", `decisions: wanted one KIND, got ${positionals.length}`);
  }
  const controller = await openController(values, terminal);
  const path = kind === "" ? "/v1/decisions" : `/v1/decisions/${encodeURIComponent(kind)}`;
  const { decisions } = await controller.call("GET", path);
  const entries = Object.entries((decisions ?? {}) as Readonly<Record<string, string>>);
  if (values.json === true) {
    const read = entries.map(([key, text]) => [key, JSON.parse(text) as unknown] as const);
    terminal.out(`${JSON.stringify(Object.fromEntries(read), undefined, 2)}\n`);
  } else if (entries.length === 0) terminal.out("no decisions\n");
  else for (const [key, text] of entries) terminal.out(`${printable(key)}\n  ${printable(text)}\n`);
  return EXIT.clean;
};
