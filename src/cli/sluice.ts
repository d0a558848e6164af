#!/usr/bin/env node
// The one command. Each subcommand is a row: what it is for, and a module that is loaded only when asked for.

import { enableCompileCache } from "node:module";
import { Fault } from "#base/fault.ts";
import { EXIT } from "#host/run.ts";
import type { Command, Terminal } from "./command.ts";

// Compiled code is kept between starts where the disk allows it; a read-only one costs only time.
enableCompileCache();

interface Row {
  readonly usage: string;
  readonly about: string;
  readonly load: () => Promise<Command>;
}

const COMMANDS: Readonly<Record<string, Row>> = {
  standalone: {
    usage: "--policies DIR [--config-path PATH]",
    about: "agent and controller in one process; policies are read from a directory and watched",
    load: async () => (await import("./standalone.ts")).standaloneCommand,
  },
  check: {
    usage: "[--control-point NAME] [--header NAME=VALUE] … | FILE | -",
    about: "ask a running agent whether a request may pass",
    load: async () => (await import("./check.ts")).checkCommand,
  },
  "policy check": {
    usage: "FILE…",
    about: "judge policy documents without running them",
    load: async () => (await import("./policy-check.ts")).policyCheckCommand,
  },
  "agent config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the agent's settings and where each came from",
    load: async () => (await import("./config.ts")).configCommand("agent"),
  },
  "controller config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the controller's settings and where each came from",
    load: async () => (await import("./config.ts")).configCommand("controller"),
  },
  version: {
    usage: "",
    about: "print the version",
    load: async () => (await import("./version.ts")).versionCommand,
  },
};

function usage(): string {
  const rows = Object.entries(COMMANDS).map(
    ([name, { usage, about }]) => `  sluice ${name} ${usage}\n      ${about}`,
  );
  return `Flow control for services and meshes.\n\n${rows.join("\n")}\n`;
}

/** Runs the command line; returns the exit code. */
export async function sluice(argv: readonly string[], terminal: Terminal): Promise<number> {
  const [first = "", second = ""] = argv;
  const two = COMMANDS[`${first} ${second}`];
  const row = two ?? COMMANDS[first];
  if (row === undefined) {
    const asked = first === "" || first === "help" || first === "--help" || first === "-h";
    if (asked) terminal.out(usage());
    else terminal.err(`sluice: no such command\n\n${usage()}`);
    return asked ? EXIT.clean : EXIT.usage;
  }
  const command = await row.load();
  try {
    return await command(argv.slice(two === undefined ? 1 : 2), terminal);
  } catch (thrown) {
    const fault = Fault.from(thrown);
    terminal.err(`sluice: ${fault.message}\n`);
    if (fault.code === "INTERNAL") terminal.err(`${String(fault.cause)}\n`);
    return fault.code === "INVALID_ARGUMENT" ? EXIT.usage : EXIT.internal;
  }
}

if (import.meta.main) {
  process.exitCode = await sluice(process.argv.slice(2), {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    env: process.env,
    stdin: process.stdin,
  });
}
