// The command `sluice`. Each subcommand is a row of a table; its module is loaded only when the subcommand runs.

import { Fault } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";
import { nearest } from "#base/text/spelling.ts";
import { EXIT, exitCode } from "#runtime/life/run.ts";
import type { Command, Terminal } from "./command.ts";

interface Row {
  readonly usage: string;
  readonly about: string;
  /** Flags and their meaning, as `--help` lists them. */
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

const AGENT_GROUP = {
  "--agent-group NAME":
    "the agent group of selectors that name none, as policies.default_agent_group of the controller (default: default)",
} as const;

const POLICY_FLAGS = {
  ...AGENT_GROUP,
  "--queries WHO":
    "what will answer queries: prometheus (default), or own, the subset that Sluice evaluates itself",
  FILE: "a policy document, a directory of them, or - for standard input; all together form one set",
} as const;

const CONTROLLER_FLAGS = {
  "--controller ADDRESS":
    "the controller, as HOST:PORT, URL or unix:/PATH; by default the address of administration in the configuration that a controller started here would read (SVC_CONTROLLER_SERVER_LISTENER_ADDR)",
  "--ca FILE": "certificate authorities for the certificate of the controller",
  "--cert FILE": "client certificate",
  "--key FILE": "private key of the client certificate",
  "--token-path FILE":
    "file with the administration token; by default SVC_CONTROLLER_SERVER_ADMINISTRATION_TOKEN",
  "--json": "print JSON",
} as const;

const COMMANDS: Readonly<Record<string, Row>> = {
  standalone: {
    usage: "--policies DIR… [--config-path PATH]",
    about:
      "run agent and controller in one process; policies come from directories, which are watched",
    flags: {
      "--policies DIR": "directory of policy documents (*.yaml, *.yml, *.json); may be repeated",
      ...CONFIG_PATH,
    },
    load: async () => (await import("./processes/standalone.ts")).standaloneCommand,
  },
  agent: {
    usage: "[--config-path PATH]",
    about: "run an agent that shares a store with a controller",
    flags: CONFIG_PATH,
    load: async () => (await import("./processes/agent.ts")).agentCommand,
  },
  controller: {
    usage: "[--policies DIR]… [--config-path PATH]",
    about: "run a controller that shares a store with agents",
    flags: {
      "--policies DIR": "directory of policy documents (*.yaml, *.yml, *.json); may be repeated",
      ...CONFIG_PATH,
    },
    load: async () => (await import("./processes/controller.ts")).controllerCommand,
  },
  injector: {
    usage: "[--config-path PATH]",
    about:
      "run the webhook that puts an agent into the pods of labelled Kubernetes namespaces; the agent's configuration here becomes that of the sidecars",
    flags: CONFIG_PATH,
    load: async () => (await import("./processes/injector.ts")).injectorCommand,
  },
  inject: {
    usage: "--dry-run [--config-path PATH] FILE",
    about:
      "print what injection would make of the pods and pod templates in Kubernetes manifests, without a cluster; warnings go to standard error",
    flags: {
      "--dry-run": "required: nothing is sent to a cluster",
      "--config-path PATH":
        "configuration of an injector; without it the image of sidecars is sluice:VERSION unless SVC_INJECTOR_SIDECAR_IMAGE names another",
      FILE: "manifests in YAML or JSON, whose namespaces are taken for labelled; - is standard input",
    },
    load: async () => (await import("./injection/inject.ts")).injectCommand,
  },
  check: {
    usage: "[--control-point NAME] [--header NAME=VALUE] … | FILE | -",
    about: "ask a running agent whether a request may pass",
    flags: {
      "--address ADDRESS":
        "the agent, as HOST:PORT, URL or unix:/PATH; by default server.listener.addr (SVC_AGENT_SERVER_LISTENER_ADDR) of the configuration that an agent started here would read",
      "--ca FILE": "certificate authorities for the certificate of the agent",
      "--cert FILE": "client certificate",
      "--key FILE": "private key of the client certificate",
      "--control-point NAME": "the control point of the request (default ingress)",
      "--method METHOD": "the method of the request (default GET)",
      "--path PATH": "the path of the request (default /)",
      "--host HOST": "the host of the request",
      "--header NAME=VALUE": "a header of the request; may be repeated",
      "--label NAME=VALUE":
        "a label that a service in front gives the request in its baggage; may be repeated",
      "--source ADDRESS": "the client of the request, as IP address, IPv4:PORT or [IPv6]:PORT",
      "--destination ADDRESS": "the server of the request, in the same forms",
      "--body TEXT": "the body of the request",
      "--ramp-mode": "refuse the request if no load ramp matches it",
      "--expect-end": "announce that the end of the flow will be reported",
      "--json": "print the whole reply as JSON",
      FILE: "a CheckHTTPRequest as JSON instead of the flags above; - is standard input",
    },
    load: async () => (await import("./check.ts")).checkCommand,
  },
  "policy check": {
    usage:
      "[--json] [--strict] [--auto-scale] [--label NAME]… [--namespace NAME] [--agent-group NAME] [--queries WHO] FILE…",
    about: "check policy documents without running them",
    flags: {
      "--json": "print JSON, with line and column for editors",
      "--strict": "treat warnings as faults, with exit code 1",
      "--auto-scale": "the controllers scale Kubernetes objects (auto_scale.kubernetes.enabled)",
      "--label NAME":
        "a label that callers send with their checks, as SDKs do, so that a limit may be keyed by it; may be repeated",
      "--namespace NAME":
        "the policies are to be resources of this namespace, one of policies.namespaces, and so may reach only what is in it",
      ...POLICY_FLAGS,
      "--queries WHO":
        "what will answer queries: prometheus, or own, the subset that Sluice evaluates itself; by default both are tried, and a query that only Prometheus can answer is a warning",
    },
    load: async () => (await import("./policies/check.ts")).policyCheckCommand,
  },
  "policy expand": {
    usage: "[--json] FILE…",
    about: "print every component that would run, with composites expanded",
    flags: { "--json": "print JSON instead of YAML", ...POLICY_FLAGS },
    load: async () => (await import("./policies/view.ts")).policyExpandCommand,
  },
  "policy graph": {
    usage: "[--format mermaid|dot|json] [--open | --depth N] FILE…",
    about: "draw the circuit: components and the signals between them",
    flags: {
      "--format FORMAT": "mermaid (default), dot or json",
      "--open": "show the inside of all composites",
      "--depth N": "show the inside of N levels of composites (default 0)",
      ...POLICY_FLAGS,
    },
    load: async () => (await import("./policies/view.ts")).policyGraphCommand,
  },
  "policy apply": {
    usage: "FILE… [--name NAME] [--wait DURATION] [--controller ADDRESS] [--json]",
    about:
      "give policies to a running controller, under their metadata.name or the names of their files",
    flags: {
      "--name NAME": "the name of the policy from standard input, where the document has none",
      "--wait DURATION":
        "the longest time until all agents apply the policies, 5s by default; after it, exit code 1 if a policy does not run or an agent is behind; 0 neither waits nor judges",
      ...CONTROLLER_FLAGS,
      FILE: "a policy document, a directory of them, or - for standard input",
    },
    load: async () => (await import("./controller/policy.ts")).policyApplyCommand,
  },
  "policy list": {
    usage: "[--controller ADDRESS] [--json]",
    about: "list the policies of a running controller, and how many agents apply each",
    flags: CONTROLLER_FLAGS,
    load: async () => (await import("./controller/policy.ts")).policyListCommand,
  },
  "policy get": {
    usage: "NAME [--controller ADDRESS] [--json]",
    about: "print one policy of a running controller, and which agents are behind",
    flags: CONTROLLER_FLAGS,
    load: async () => (await import("./controller/policy.ts")).policyGetCommand,
  },
  "policy delete": {
    usage: "NAME [--controller ADDRESS]",
    about: "remove a policy that was given to a running controller",
    flags: CONTROLLER_FLAGS,
    load: async () => (await import("./controller/policy.ts")).policyDeleteCommand,
  },
  agents: {
    usage: "[--agent-group NAME] [--control-points | --auto-scale] [--controller ADDRESS] [--json]",
    about: "list the agents of a running controller, or what they have seen",
    flags: {
      "--agent-group NAME": "only the agents of this group",
      "--control-points": "list the control points of the flows that the agents have judged",
      "--auto-scale": "list the Kubernetes objects that policies could scale",
      ...CONTROLLER_FLAGS,
    },
    load: async () => (await import("./controller/agents.ts")).agentsCommand,
  },
  decisions: {
    usage: "[KIND] [--controller ADDRESS] [--json]",
    about: "print the last numbers that a running controller has sent to agents",
    flags: {
      ...CONTROLLER_FLAGS,
      KIND: "the kind of component, as keys of decisions name it; all kinds without it",
    },
    load: async () => (await import("./controller/decisions.ts")).decisionsCommand,
  },
  simulate: {
    usage: "[POLICY…] --scenario FILE [--plot FILE.svg] [--json]",
    about: "run policies in virtual time and check the expectations of a scenario",
    flags: {
      POLICY:
        "a policy document, a directory of them, or - for standard input; all run together; without one, only the service runs",
      "--scenario FILE": "what happens to the service, and what is expected",
      "--agent-group NAME": `${AGENT_GROUP["--agent-group NAME"]}, and of the agent, unless the scenario names one`,
      "--seed NUMBER": "another random seed than that of the scenario",
      "--plot FILE.svg": "draw the panels of the scenario as SVG",
      "--series NAME,…":
        "draw a panel of these signals or model series instead; may be repeated; with --json, print them (needs --plot or --json)",
      "--json": "print JSON instead of tables",
    },
    load: async () => (await import("./policies/simulate.ts")).simulateCommand,
  },
  "agent config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the agent's settings and the source of each",
    flags: CONFIG_FLAGS,
    load: async () => (await import("./config.ts")).configCommand("agent"),
  },
  "controller config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the controller's settings and the source of each",
    flags: CONFIG_FLAGS,
    load: async () => (await import("./config.ts")).configCommand("controller"),
  },
  "injector config": {
    usage: "[--config-path PATH] [--json]",
    about: "print the injector's settings and the source of each",
    flags: CONFIG_FLAGS,
    load: async () => (await import("./config.ts")).configCommand("injector"),
  },
  completion: {
    usage: "bash|zsh|fish",
    about:
      "print a script that completes commands and flags in a shell; it works for the installed command `sluice`, not for `npm run sluice`",
    flags: {},
    load: async () => (await import("./completion.ts")).completionCommand(() => COMMANDS),
  },
  version: {
    usage: "[--json]",
    about: "print the version",
    flags: { "--json": "print JSON" },
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

Exit codes: ${EXIT.clean} success, or "yes"; ${EXIT.refused} "no": a request was refused, a policy has faults or is not applied by all agents,
an expectation failed;
${EXIT.usage} the command line, the configuration or a file cannot be used; ${EXIT.unavailable} the address is in use
or no agent answers; ${EXIT.internal} any other error.`;

/** The text that `sluice <command> --help` prints. */
function usageOf(name: string, { usage, about, flags }: Row): string {
  const all = Object.entries({ ...flags, "--help": "print this help" });
  const wide = Math.max(...all.map(([flag]) => flag.length));
  const lines = all.map(([flag, meaning]) => `  ${flag.padEnd(wide)}  ${meaning}`);
  return `sluice ${name} ${usage}`.trimEnd().concat(`\n  ${about}\n\n${lines.join("\n")}\n`);
}

/** Whether the arguments ask for help. Arguments after a lone `--` are not options. */
function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  const options = end === -1 ? args : args.slice(0, end);
  return options.includes("--help") || options.includes("-h");
}

function commandOf(first: string, second: string): string | undefined {
  return [`${first} ${second}`, first].find((name) => Object.hasOwn(COMMANDS, name));
}

/** Usage of a command (`policy check`), or of all that begin with a word (`policy`, `agent`); "" if none do. */
function helpFor(first: string, second: string): string {
  const both = `${first} ${second}`;
  const wanted = Object.hasOwn(COMMANDS, both)
    ? (name: string) => name === both
    : (name: string) => name === first || name.startsWith(`${first} `);
  return Object.entries(COMMANDS)
    .filter(([name]) => wanted(name))
    .map((entry) => usageOf(...entry))
    .join("\n");
}

/** The message for an unknown command, with the command that was probably meant. */
function unknown(first: string, second: string): string {
  const names = Object.keys(COMMANDS);
  const group = names.filter((name) => name.startsWith(`${first} `));
  const got = JSON.stringify(group.length > 0 ? `${first} ${second}`.trimEnd() : first);
  const near =
    group.length > 0
      ? nearest(
          second,
          group.map((name) => name.slice(first.length + 1)),
        )
      : (nearest(`${first} ${second}`, names) ?? nearest(first, names));
  const meant =
    group.length > 0 && near !== undefined
      ? `${first} ${near}`
      : (near ?? (group.length > 0 ? group.join(", ") : undefined));
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
    terminal.err(`sluice: ${fault.message.split("\n").map(printable).join("\n")}\n`);
    if (fault.code === "INTERNAL") terminal.err(`${String(fault.cause)}\n`);
    return exitCode(fault);
  }
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
