// `sluice policy list`, `get` and `delete`: the policies of a running controller.

import { stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { Json } from "../server.ts";
import type { Command } from "../subcommands.ts";
import { printJson } from "../terminal.ts";
import { openController } from "./ask.ts";
import { agentsText, behindText, refusedText, rolloutText } from "./rollout.ts";
import { tableText } from "./table.ts";

export const pathOfPolicy = (name: string) => `/v1/policies/${encodeURIComponent(name)}`;

export const policyListCommand: Command<"policy list"> = async ({ flags }, terminal) => {
  const controller = await openController(flags, terminal);
  const reply = await controller.call("GET", "/v1/policies");
  const found = ((reply["policies"] as Json | undefined)?.["policies"] ?? {}) as Json;
  if (flags.json) printJson(terminal, found);
  else {
    const rows = Object.entries(found).map(([name, view]) => {
      const { status, reason, rollout } = view as Json;
      return [name, String(status), agentsText(rollout), String(reason || behindText(rollout))];
    });
    terminal.out(tableText("no policies", ["NAME", "STATUS", "AGENTS", "REASON"], rows));
  }
  return EXIT.clean;
};

export const policyGetCommand: Command<"policy get"> = async ({ flags, operands }, terminal) => {
  const name = oneName("policy get", operands);
  const controller = await openController(flags, terminal);
  const view = await controller.call("GET", pathOfPolicy(name));
  if (flags.json) printJson(terminal, view);
  else {
    const { policy, status, reason, rollout } = view;
    const why = reason === "" || reason === undefined ? "" : `: ${printable(String(reason))}`;
    const refused = refusedText(rollout).replaceAll("\n", "\n#");
    terminal.out(`# ${name} ${String(status)}${why}${rolloutText(rollout)}${refused}\n`);
    if (policy !== null) terminal.out(stringify(policy, { lineWidth: 110 }));
  }
  return EXIT.clean;
};

export const policyDeleteCommand: Command<"policy delete"> = async (
  { flags, operands },
  terminal,
) => {
  const name = oneName("policy delete", operands);
  const controller = await openController(flags, terminal);
  // DELETE answers the same whether the policy existed or not. A mistyped name is to be reported.
  await controller.call("GET", pathOfPolicy(name));
  await controller.call("DELETE", pathOfPolicy(name));
  terminal.out(flags.json ? `${JSON.stringify({ deleted: name })}\n` : `${name} deleted\n`);
  return EXIT.clean;
};

function oneName(command: string, names: readonly string[]): string {
  const [name] = names;
  if (name !== undefined && name !== "" && names.length === 1) return name;
  throw new Fault("INVALID_ARGUMENT", `${command}: wanted one NAME, got ${names.length}`);
}
