// The command `sluice`. The module of a subcommand is loaded only when the subcommand runs.

import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { EXIT, exitCode } from "#runtime/life/run.ts";
import { parseArguments } from "./flags.ts";
import { helpFor, unknownCommand, usage } from "./help.ts";
import { type Command, SUBCOMMANDS, type SubcommandName } from "./subcommands.ts";
import type { Terminal } from "./terminal.ts";

const MODULES: Readonly<{ [Name in SubcommandName]: () => Promise<Command<Name>> }> = {
  standalone: async () => (await import("./processes/standalone.ts")).standaloneCommand,
  agent: async () => (await import("./processes/agent.ts")).agentCommand,
  controller: async () => (await import("./processes/controller.ts")).controllerCommand,
  injector: async () => (await import("./processes/injector.ts")).injectorCommand,
  inject: async () => (await import("./injection/inject.ts")).injectCommand,
  check: async () => (await import("./check/check.ts")).checkCommand,
  "policy check": async () => (await import("./policies/check.ts")).policyCheckCommand,
  "policy expand": async () => (await import("./policies/view.ts")).policyExpandCommand,
  "policy graph": async () => (await import("./policies/view.ts")).policyGraphCommand,
  "policy apply": async () => (await import("./controller/apply.ts")).policyApplyCommand,
  "policy list": async () => (await import("./controller/policies.ts")).policyListCommand,
  "policy get": async () => (await import("./controller/policies.ts")).policyGetCommand,
  "policy delete": async () => (await import("./controller/policies.ts")).policyDeleteCommand,
  agents: async () => (await import("./controller/agents.ts")).agentsCommand,
  decisions: async () => (await import("./controller/decisions.ts")).decisionsCommand,
  simulate: async () => (await import("./policies/simulate.ts")).simulateCommand,
  "agent config": async () => (await import("./config.ts")).configCommand("agent"),
  "controller config": async () => (await import("./config.ts")).configCommand("controller"),
  "injector config": async () => (await import("./config.ts")).configCommand("injector"),
  completion: async () => (await import("./completion.ts")).completionCommand,
  version: async () => (await import("./version.ts")).versionCommand,
};

const HELP: readonly string[] = ["help", "--help", "-h"];
const VERSION: readonly string[] = ["--version", "-v"];

/** Runs the command line. Resolves to the exit code. */
export async function sluice(argv: readonly string[], terminal: Terminal): Promise<number> {
  const [head = "help", ...tail] = argv;
  // `help check` is `check --help`, `--version` is `version`; `help help` is `help`.
  if (HELP.includes(head) && tail[0] !== undefined && !HELP.includes(tail[0])) {
    return sluice([...tail, "--help"], terminal);
  }
  if (VERSION.includes(head)) return sluice(["version", ...tail], terminal);
  const [second = ""] = tail;
  const help = HELP.includes(head) ? usage() : wantsHelp(tail) ? helpFor(head, second) : "";
  if (help !== "") {
    terminal.out(help);
    return EXIT.clean;
  }
  const name = [`${head} ${second}`, head].find(isSubcommand);
  if (name === undefined) {
    terminal.err(`sluice: ${unknownCommand(head, second)}\n`);
    return EXIT.usage;
  }
  try {
    return await runSubcommand(name, argv.slice(name.split(" ").length), terminal);
  } catch (thrown) {
    const fault = Fault.from(thrown);
    terminal.err(`sluice: ${fault.message.split("\n").map(printable).join("\n")}\n`);
    if (fault.code === "INTERNAL") terminal.err(`${String(fault.cause)}\n`);
    return exitCode(fault);
  }
}

function isSubcommand(name: string): name is SubcommandName {
  return Object.hasOwn(SUBCOMMANDS, name);
}

async function runSubcommand<Name extends SubcommandName>(
  name: Name,
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const command = await MODULES[name]();
  return command(parseArguments(args, SUBCOMMANDS[name].flags), terminal);
}

/** True if the arguments ask for help. Arguments after a lone `--` are not flags. */
function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  const flags = end === -1 ? args : args.slice(0, end);
  return flags.includes("--help") || flags.includes("-h");
}

/** The process. */
export async function main(): Promise<void> {
  // A reader that stops reading (`| head`) is no error: the exit code is still that of the command.
  process.stdout.on("error", (thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== "EPIPE") throw thrown;
  });
  process.exitCode = await sluice(process.argv.slice(2), {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    env: process.env,
    stdin: process.stdin,
    isTty: { out: process.stdout.isTTY === true, err: process.stderr.isTTY === true },
  });
}
