// The subcommands: their usage, purpose and flags. Help, parsing, the types of the flags and completion all use these rows.

import type { Arguments, Forms } from "./flags.ts";
import type { Terminal } from "./terminal.ts";

interface Subcommand {
  readonly usage: string;
  readonly about: string;
  /** Flags and operands by their forms (see `Forms`), and their meaning. */
  readonly flags: Forms;
}

const CONFIG_PATH = {
  "--config-path PATH": "configuration file, or the directory that holds it",
} as const;

const configOf = (process: string) =>
  ({
    usage: "[--config-path PATH] [--json]",
    about: `print the ${process}'s settings and the source of each`,
    flags: { ...CONFIG_PATH, "--json": "print JSON instead of YAML" },
  }) as const;

/** Certificates for a call of a server. */
const tlsFlags = (server: string) =>
  ({
    "--ca FILE": `certificate authorities for the certificate of the ${server}`,
    "--cert FILE": "client certificate",
    "--key FILE": "private key of the client certificate",
  }) as const;

const DIRECTORIES = {
  "--policies DIR…": "directory of policy documents (*.yaml, *.yml, *.json)",
  ...CONFIG_PATH,
} as const;

const AGENT_GROUP = {
  "--agent-group NAME":
    "the agent group of selectors that name none, as policies.default_agent_group of the controller (default: default)",
} as const;

const POLICIES = {
  ...AGENT_GROUP,
  "--queries prometheus|own":
    "the engine that will answer queries: Prometheus (default), or the subset that Sluice evaluates itself",
  FILE: "a policy document, a directory of them, or - for standard input; all together form one set",
} as const;

export const CONTROLLER_FLAGS = {
  "--controller ADDRESS":
    "the controller, as HOST:PORT, URL or unix:/PATH; by default the address of administration in the configuration that a controller started here would read (SVC_CONTROLLER_SERVER_LISTENER_ADDR)",
  ...tlsFlags("controller"),
  "--token-path FILE":
    "file with the administration token; by default SVC_CONTROLLER_SERVER_ADMINISTRATION_TOKEN",
  "--json": "print JSON",
} as const;

export const SUBCOMMANDS = {
  standalone: {
    usage: "--policies DIR… [--config-path PATH]",
    about:
      "run agent and controller in one process; policies come from directories, which are watched",
    flags: DIRECTORIES,
  },
  agent: {
    usage: "[--config-path PATH]",
    about: "run an agent that shares a store with a controller",
    flags: CONFIG_PATH,
  },
  controller: {
    usage: "[--policies DIR]… [--config-path PATH]",
    about: "run a controller that shares a store with agents",
    flags: DIRECTORIES,
  },
  injector: {
    usage: "[--config-path PATH]",
    about:
      "run the webhook that puts an agent into the pods of labelled Kubernetes namespaces; the agent's configuration here becomes that of the sidecars",
    flags: CONFIG_PATH,
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
  },
  check: {
    usage: "[--control-point NAME] [--header NAME=VALUE] … | FILE | -",
    about: "ask a running agent whether a request may pass",
    flags: {
      "--address ADDRESS":
        "the agent, as HOST:PORT, URL or unix:/PATH; by default server.listener.addr (SVC_AGENT_SERVER_LISTENER_ADDR) of the configuration that an agent started here would read",
      ...tlsFlags("agent"),
      "--control-point NAME": "the control point of the request (default ingress)",
      "--method METHOD": "the method of the request (default GET)",
      "--path PATH": "the path of the request (default /)",
      "--host HOST": "the host of the request",
      "--header NAME=VALUE…": "a header of the request",
      "--label NAME=VALUE…": "a label that a service in front gives the request in its baggage",
      "--source ADDRESS": "the client of the request, as IP address, IPv4:PORT or [IPv6]:PORT",
      "--destination ADDRESS": "the server of the request, in the same forms",
      "--body TEXT": "the body of the request",
      "--ramp-mode": "refuse the request if no load ramp matches it",
      "--expect-end": "announce that the end of the flow will be reported",
      "--json": "print the whole reply as JSON",
      FILE: "a CheckHTTPRequest as JSON instead of the flags above; - is standard input",
    },
  },
  "policy check": {
    usage:
      "[--json] [--strict] [--auto-scale] [--label NAME]… [--namespace NAME] [--agent-group NAME] [--queries WHO] FILE…",
    about: "check policy documents without running them",
    flags: {
      "--json": "print JSON, with line and column for editors",
      "--strict": "treat warnings as faults, with exit code 1",
      "--auto-scale": "the controllers scale Kubernetes objects (auto_scale.kubernetes.enabled)",
      "--label NAME…":
        "a label that callers send with their checks, as SDKs do, so that a limit may be keyed by it",
      "--namespace NAME":
        "the policies are to be resources of this namespace, one of policies.namespaces, and so may reach only what is in it",
      ...POLICIES,
      "--queries prometheus|own":
        "the engine that will answer queries: Prometheus, or the subset that Sluice evaluates itself; by default both are tried, and a query that only Prometheus can answer is a warning",
    },
  },
  "policy expand": {
    usage: "[--json] FILE…",
    about: "print every component that would run, with composites expanded",
    flags: { "--json": "print JSON instead of YAML", ...POLICIES },
  },
  "policy graph": {
    usage: "[--format mermaid|dot|json] [--open | --depth N] FILE…",
    about: "draw the circuit: components and the signals between them",
    flags: {
      "--format mermaid|dot|json": "the form of the drawing (default mermaid)",
      "--open": "show the inside of all composites",
      "--depth N": "show the inside of N levels of composites (default 0)",
      ...POLICIES,
    },
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
  },
  "policy list": {
    usage: "[--controller ADDRESS] [--json]",
    about: "list the policies of a running controller, and how many agents apply each",
    flags: CONTROLLER_FLAGS,
  },
  "policy get": {
    usage: "NAME [--controller ADDRESS] [--json]",
    about: "print one policy of a running controller, and which agents are behind",
    flags: { ...CONTROLLER_FLAGS, NAME: "the name of the policy" },
  },
  "policy delete": {
    usage: "NAME [--controller ADDRESS]",
    about: "remove a policy that was given to a running controller",
    flags: { ...CONTROLLER_FLAGS, NAME: "the name of the policy" },
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
  },
  decisions: {
    usage: "[KIND] [--controller ADDRESS] [--json]",
    about: "print the last numbers that a running controller has sent to agents",
    flags: {
      ...CONTROLLER_FLAGS,
      KIND: "the kind of component, as keys of decisions name it; all kinds without it",
    },
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
      "--series NAME[,NAME]…":
        "draw a panel of these signals or model series instead; with --json, print them (needs --plot or --json)",
      "--json": "print JSON instead of tables",
    },
  },
  "agent config": configOf("agent"),
  "controller config": configOf("controller"),
  "injector config": configOf("injector"),
  completion: {
    usage: "bash|zsh|fish",
    about:
      "print a script that completes commands and flags in a shell; it works for the installed command `sluice`, not for `npm run sluice`",
    flags: { "bash|zsh|fish": "the shell" },
  },
  version: {
    usage: "[--json]",
    about: "print the version",
    flags: { "--json": "print JSON" },
  },
} as const satisfies Readonly<Record<string, Subcommand>>;

export type SubcommandName = keyof typeof SUBCOMMANDS;

/** Runs a subcommand. Resolves to the exit code. */
export type Command<Name extends SubcommandName> = (
  args: Arguments<(typeof SUBCOMMANDS)[Name]["flags"]>,
  terminal: Terminal,
) => Promise<number>;
