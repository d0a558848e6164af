#!/usr/bin/env node
// The one command. Each subcommand is a row: what it is for, and a module that is loaded only when asked for.

import { enableCompileCache } from "node:module";
import { Fault } from "#base/fault.ts";
import { nearest } from "#base/near.ts";
import { EXIT, exitCode } from "#host/run.ts";
import type { Command, Terminal } from "./command.ts";

// Compiled code is kept between starts where the disk allows it; a read-only one costs only time.
enableCompileCache();

interface Row {
  readonly usage: string;
  readonly about: string;
  /** Flags and what they mean; what `--help` lists. */
  readonly flags: Readonly<Record<string, string>>;
  readonly load: () => Promise<Command>;
}

const CONFIG_PATH = {
  "--config-path PATH": "configuration file, or the directory that holds it",
} as const;
const CONFIG_FLAGS = {
  ...CONFIG_PATH,
  "--json": "print JSON instead of YAML",
} as const;

const POLICY_FLAGS = {
  "--queries WHO":
    "who will answer queries: prometheus (unless told), or own, the part that Sluice answers itself",
  FILE: "a policy document, a directory of them, or - for standard input; all together are one set",
} as const;

const COMMANDS: Readonly<Record<string, Row>> = {
  standalone: {
    usage: "--policies DIR [--config-path PATH]",
    about: "agent and controller in one process; policies are read from a directory and watched",
    flags: {
      "--policies DIR": "directory of policy documents (*.yaml, *.yml, *.json)",
      ...CONFIG_PATH,
    },
    load: async () => (await import("./standalone.ts")).standaloneCommand,
  },
  check: {
    usage: "[--control-point NAME] [--header NAME=VALUE] … | FILE | -",
    about: "ask a running agent whether a request may pass",
    flags: {
      "--address ADDRESS":
        "the agent as HOST:PORT or URL; unless told, server.listener.addr (SVC_AGENT_SERVER_LISTENER_ADDR) as an agent started here would read it",
      "--control-point NAME": "where the request is, ingress unless told",
      "--method METHOD": "of the request, GET unless told",
      "--path PATH": "of the request, / unless told",
      "--host HOST": "of the request",
      "--header NAME=VALUE": "of the request; may be repeated",
      "--body TEXT": "of the request",
      "--ramp-mode": "refuse the request where no load ramp matches it",
      "--expect-end": "say that the end of the flow will be told",
      "--json": "print the whole answer as JSON",
      FILE: "a CheckHTTPRequest as JSON instead of the flags above; - is standard input",
    },
    load: async () => (await import("./check.ts")).checkCommand,
  },
  "policy check": {
    usage: "[--json] FILE…",
    about: "judge policy documents without running them",
    flags: { "--json": "print JSON, with places for editors", ...POLICY_FLAGS },
    load: async () => (await import("./policy-check.ts")).policyCheckCommand,
  },
  "policy expand": {
    usage: "[--json] FILE…",
    about: "print every component that would run, composites expanded",
    flags: { "--json": "print JSON instead of YAML", ...POLICY_FLAGS },
    load: async () => (await import("./policy-view.ts")).policyExpandCommand,
  },
  "policy graph": {
    usage: "[--format mermaid|dot|json] [--open | --depth N] FILE…",
    about: "draw the circuit: components and the signals between them",
    flags: {
      "--format FORMAT": "mermaid unless told, dot or json",
      "--open": "open all composites",
      "--depth N": "open so many levels of composites, 0 unless told",
      ...POLICY_FLAGS,
    },
    load: async () => (await import("./policy-view.ts")).policyGraphCommand,
  },
  simulate: {
    usage: "[POLICY…] --scenario FILE [--plot FILE.svg] [--json]",
    about: "try policies in virtual time, and see whether what a scenario expects holds",
    flags: {
      POLICY:
        "a policy document, a directory of them, or - for standard input; all run together, without any the service is alone",
      "--scenario FILE": "what happens to the service, and what must hold",
      "--seed NUMBER": "other dice than the scenario's",
      "--plot FILE.svg": "draw the scenario's panels as SVG",
      "--series NAME,…":
        "draw these signals or model series instead, each time as a panel; with --json: print them (one of the two is needed)",
      "--json": "print JSON instead of tables",
    },
    load: async () => (await import("./simulate.ts")).simulateCommand,
  },
  "agent config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the agent's settings and where each came from",
    flags: CONFIG_FLAGS,
    load: async () => (await import("./config.ts")).configCommand("agent"),
  },
  "controller config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the controller's settings and where each came from",
    flags: CONFIG_FLAGS,
    load: async () => (await import("./config.ts")).configCommand("controller"),
  },
  version: {
    usage: "",
    about: "print the version",
    flags: {},
    load: async () => (await import("./version.ts")).versionCommand,
  },
};

function usage(): string {
  const rows = Object.entries(COMMANDS).map(([name, { usage, about }]) =>
    `  sluice ${name} ${usage}`.trimEnd().concat(`\n      ${about}`),
  );
  return `Flow control for services and meshes.\n\n${rows.join("\n")}\n\n${MORE}\n`;
}

const MORE = `sluice <command> --help lists the flags of a command.

Exit codes: ${EXIT.clean} done, or yes; ${EXIT.refused} no: a request refused, a policy at fault, an expectation that does not hold;
${EXIT.usage} the command line, the configuration or a file cannot be used; ${EXIT.unavailable} the address is in use,
or no agent answers; ${EXIT.internal} anything else.`;

/** What `sluice <command> --help` prints. */
function usageOf(name: string, { usage, about, flags }: Row): string {
  const all = Object.entries({ ...flags, "--help": "print this" });
  const wide = Math.max(...all.map(([flag]) => flag.length));
  const lines = all.map(([flag, meaning]) => `  ${flag.padEnd(wide)}  ${meaning}`);
  return `sluice ${name} ${usage}`.trimEnd().concat(`\n  ${about}\n\n${lines.join("\n")}\n`);
}

/** Is help asked for? What follows a lone `--` is no option. */
function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  const options = end === -1 ? args : args.slice(0, end);
  return options.includes("--help") || options.includes("-h");
}

function commandOf(first: string, second: string): string | undefined {
  return [`${first} ${second}`, first].find((name) => Object.hasOwn(COMMANDS, name));
}

/** Usage of a command, or of all that begin with the word (`policy`); empty where there is none. */
function helpFor(first: string, second: string): string {
  const name = commandOf(first, second);
  return Object.entries(COMMANDS)
    .filter(([other]) => (name === undefined ? other.startsWith(`${first} `) : other === name))
    .map((entry) => usageOf(...entry))
    .join("\n");
}

/** The command that was meant, or what begins with this word. */
function unknown(first: string, second: string): string {
  const names = Object.keys(COMMANDS);
  const group = names.filter((name) => name.startsWith(`${first} `));
  const got = JSON.stringify(group.length > 0 ? `${first} ${second}`.trimEnd() : first);
  const near = nearest(`${first} ${second}`, names) ?? nearest(first, names);
  const meant = group.length > 0 ? group.join(", ") : near;
  const hint = meant === undefined ? "" : `did you mean ${meant}? `;
  return `no such command, ${got}; ${hint}sluice help lists them`;
}

const HELP: readonly string[] = ["help", "--help", "-h"];
const VERSION: readonly string[] = ["--version", "-v"];

/** Runs the command line; returns the exit code. */
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
  const name = commandOf(head, second);
  const row = COMMANDS[name ?? ""];
  if (name === undefined || row === undefined) {
    terminal.err(`sluice: ${unknown(head, second)}\n`);
    return EXIT.usage;
  }
  const command = await row.load();
  try {
    return await command(argv.slice(name.split(" ").length), terminal);
  } catch (thrown) {
    const fault = Fault.from(thrown);
    terminal.err(`sluice: ${fault.message}\n`);
    if (fault.code === "INTERNAL") terminal.err(`${String(fault.cause)}\n`);
    return exitCode(fault);
  }
}

/** The process. */
export async function main(): Promise<void> {
  // Whoever reads has read enough (`| head`): the exit code still says what became of it.
  process.stdout.on("error", (thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== "EPIPE") throw thrown;
  });
  process.exitCode = await sluice(process.argv.slice(2), {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    env: process.env,
    stdin: process.stdin,
  });
}

if (import.meta.main) await main();
