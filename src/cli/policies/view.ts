// `sluice policy expand` and `sluice policy graph`: the compiled form of documents, as text and as a diagram.

import { stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { expanded } from "#policy/diagram/expand.ts";
import { ALL_OPEN, dot, type Graph, graphOf, mermaid } from "#policy/diagram/graph.ts";
import { findingLine } from "#policy/format.ts";
import { EXIT } from "#runtime/life/run.ts";
import { type Command, readArgs, type Terminal } from "../command.ts";
import { compileFiles } from "./files.ts";

const SETTING = { queries: { type: "string" }, "agent-group": { type: "string" } } as const;

export const policyExpandCommand: Command = async (args, terminal) => {
  const options = { json: { type: "boolean" }, ...SETTING } as const;
  const { positionals, values } = readArgs(args, options, true);
  return view("policy expand", positionals, values, terminal, (policies) =>
    values.json === true
      ? `${JSON.stringify(policies.map(expanded), undefined, 2)}\n`
      : policies.map((policy) => stringify(expanded(policy), { lineWidth: 110 })).join("---\n"),
  );
};

/** One document for all policies. JSON of one policy is an object, of several a list. */
const DRAW: Readonly<Record<string, (graphs: readonly Graph[]) => string>> = {
  mermaid: (graphs) => mermaid(...graphs),
  dot: (graphs) => dot(...graphs),
  json: (graphs) => `${JSON.stringify(graphs.length === 1 ? graphs[0] : graphs, undefined, 2)}\n`,
};

export const policyGraphCommand: Command = async (args, terminal) => {
  const options = {
    format: { type: "string", default: "mermaid" },
    open: { type: "boolean" },
    depth: { type: "string", default: "0" },
    ...SETTING,
  } as const;
  const { positionals, values } = readArgs(args, options, true);
  const draw = Object.hasOwn(DRAW, values.format) ? DRAW[values.format] : undefined;
  if (draw === undefined) {
    const wanted = Object.keys(DRAW).join(", ");
    const got = JSON.stringify(values.format);
    throw new Fault("INVALID_ARGUMENT", `--format: wanted one of ${wanted}, got ${got}`);
  }
  const depth = values.open === true ? ALL_OPEN : depthOf(values.depth);
  return view("policy graph", positionals, values, terminal, (policies) =>
    draw(policies.map((policy) => graphOf(policy, depth))),
  );
};

function depthOf(text: string): number {
  if (/^\d{1,3}$/.test(text)) return Number(text);
  const wanted = "wanted how many levels of composites to open, as a whole number";
  throw new Fault("INVALID_ARGUMENT", `--depth: ${wanted}, got ${JSON.stringify(text)}`);
}

/** Prints documents that compile, and the findings of those that do not. */
async function view(
  command: string,
  files: readonly string[],
  {
    queries,
    "agent-group": agentGroup,
  }: { readonly queries?: string; readonly "agent-group"?: string },
  terminal: Terminal,
  write: (policies: readonly CompiledPolicy[]) => string,
): Promise<number> {
  const set = await compileFiles(command, files, terminal, { queries, agentGroup });
  if (set.findings.length > 0) {
    for (const finding of set.findings) terminal.err(`${findingLine(finding)}\n`);
    return EXIT.refused;
  }
  terminal.out(write(set.policies));
  return EXIT.clean;
}
