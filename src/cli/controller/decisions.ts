// `sluice decisions`: the last numbers that a controller has sent to agents.

import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { Command } from "../subcommands.ts";
import { printJson } from "../terminal.ts";
import { openController } from "./ask.ts";

export const decisionsCommand: Command<"decisions"> = async ({ flags, operands }, terminal) => {
  const [kind = "", ...more] = operands;
  if (more.length > 0) {
    throw new Fault("INVALID_ARGUMENT", `decisions: wanted one KIND, got ${operands.length}`);
  }
  const controller = await openController(flags, terminal);
  const path = kind === "" ? "/v1/decisions" : `/v1/decisions/${encodeURIComponent(kind)}`;
  const { decisions } = await controller.call("GET", path);
  const entries = Object.entries((decisions ?? {}) as Readonly<Record<string, string>>);
  if (flags.json) {
    const read = entries.map(([key, text]) => [key, JSON.parse(text) as unknown] as const);
    printJson(terminal, Object.fromEntries(read));
  } else if (entries.length === 0) terminal.out("no decisions\n");
  else for (const [key, text] of entries) terminal.out(`${printable(key)}\n  ${printable(text)}\n`);
  return EXIT.clean;
};
