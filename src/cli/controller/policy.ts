// `sluice policy apply`, `get`, `list` and `delete`: the policies of a running controller.

import { stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import { EXIT } from "#host/life/run.ts";
import { findingLine } from "#policy/format.ts";
import { type Command, readArgs } from "../command.ts";
import { readAndCompile } from "../policies/files.ts";
import { CONTROLLER_OPTIONS, type Json, openController } from "./ask.ts";
import { printable, tableText } from "./table.ts";

const pathOf = (name: string) => `/v1/policies/${encodeURIComponent(name)}`;

export const policyApplyCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const { set, texts } = await readAndCompile("policy apply", positionals, terminal, {});
  // The controller judges with its own settings; what no controller takes is reported with file and line here.
  if (set.findings.length > 0) {
    for (const finding of set.findings) terminal.err(`${findingLine(finding)}\n`);
    return EXIT.refused;
  }
  const controller = await openController(values, terminal);
  const applied: Json[] = [];
  for (const { source, of } of set.policies) {
    const policy_string = texts.find((text) => text.source === source)?.text ?? "";
    const { policy_hash } = await controller.call("POST", pathOf(of.name), { policy_string });
    const view = await controller.call("GET", pathOf(of.name));
    applied.push({ name: of.name, policy_hash, status: view["status"], rollout: view["rollout"] });
  }
  if (values.json === true) terminal.out(`${JSON.stringify(applied, undefined, 2)}\n`);
  else {
    for (const { name, policy_hash, rollout } of applied)
      terminal.out(`${name} applied, version ${String(policy_hash)}${rolloutText(rollout)}\n`);
  }
  return EXIT.clean;
};

export const policyGetCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const [name] = oneName("policy get", positionals);
  const controller = await openController(values, terminal);
  const view = await controller.call("GET", pathOf(name));
  if (values.json === true) terminal.out(`${JSON.stringify(view, undefined, 2)}\n`);
  else {
    const { policy, status, reason, rollout } = view;
    const why = reason === "" || reason === undefined ? "" : `: ${printable(String(reason))}`;
    terminal.out(`# ${name} ${String(status)}${why}${rolloutText(rollout)}\n`);
    if (policy !== null) terminal.out(stringify(policy, { lineWidth: 110 }));
  }
  return EXIT.clean;
};

export const policyListCommand: Command = async (args, terminal) => {
  const { values } = readArgs(args, CONTROLLER_OPTIONS);
  const controller = await openController(values, terminal);
  const reply = await controller.call("GET", "/v1/policies");
  const found = ((reply["policies"] as Json | undefined)?.["policies"] ?? {}) as Json;
  if (values.json === true) terminal.out(`${JSON.stringify(found, undefined, 2)}\n`);
  else if (Object.keys(found).length === 0) terminal.out("no policies\n");
  else {
    const rows = Object.entries(found).map(([name, view]) => {
      const { status, reason, rollout } = view as Json;
      return [name, String(status), agentsText(rollout), String(reason ?? "")];
    });
    terminal.out(tableText(["NAME", "STATUS", "AGENTS", "REASON"], rows));
  }
  return EXIT.clean;
};

export const policyDeleteCommand: Command = async (args, terminal) => {
  const { positionals, values } = readArgs(args, CONTROLLER_OPTIONS, true);
  const [name] = oneName("policy delete", positionals);
  const controller = await openController(values, terminal);
  // The service answers alike whether there was such a policy; people who mistype want to know.
  await controller.call("GET", pathOf(name));
  await controller.call("DELETE", pathOf(name));
  terminal.out(
    values.json === true ? `${JSON.stringify({ deleted: name })}\n` : `${name} deleted\n`,
  );
  return EXIT.clean;
};

function oneName(command: string, names: readonly string[]): readonly [string] {
  const [name] = names;
  if (name !== undefined && name !== "" && names.length === 1) return [name];
  throw new Fault("INVALID_ARGUMENT", `${command}: wanted one NAME, got ${names.length}`);
}

/** `2 of 3`, or `-` where nothing in a policy concerns agents. */
function agentsText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "-";
  const { agents, applied, unknown } = rollout as Json;
  const more = Number(unknown ?? 0) > 0 ? `, ${String(unknown)} unknown` : "";
  return `${String(applied)} of ${String(agents)}${more}`;
}

function rolloutText(rollout: unknown): string {
  if (typeof rollout !== "object" || rollout === null) return "";
  const { agents, applied, behind } = rollout as Json;
  const names = Array.isArray(behind) ? behind.map((name) => printable(String(name))) : [];
  const missing = Number(agents) - Number(applied);
  const more = missing > names.length ? ` and ${missing - names.length} more` : "";
  const late = names.length === 0 ? "" : `; behind: ${names.join(", ")}${more}`;
  return `; ${agentsText(rollout)} agents at this version${late}`;
}
