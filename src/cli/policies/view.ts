// `sluice policy expand` and `sluice policy graph`: the compiled form of documents, as text and as a diagram.

import { stringify } from "yaml";
import { Fault } from "#base/fault.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { expanded } from "#policy/diagram/expand.ts";
import { ALL_OPEN, dot, type Graph, graphOf, mermaid } from "#policy/diagram/graph.ts";
import { findingLine } from "#policy/format.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { FlagsOf } from "../flags.ts";
import type { Command, SUBCOMMANDS } from "../subcommands.ts";
import type { Terminal } from "../terminal.ts";
import { compileFiles } from "./files.ts";

export const policyExpandCommand: Command<"policy expand"> = async (
  { flags, operands },
  terminal,
) =>
  view("policy expand", operands, flags, terminal, (policies) =>
    flags.json
      ? `${JSON.stringify(policies.map(expanded), undefined, 2)}\n`
      : policies.map((policy) => stringify(expanded(policy), { lineWidth: 110 })).join("---\n"),
  );

/** One document for all policies. JSON of one policy is an object, of several a list. */
const DRAW: Readonly<Record<"mermaid" | "dot" | "json", (graphs: readonly Graph[]) => string>> = {
  mermaid: (graphs) => mermaid(...graphs),
  dot: (graphs) => dot(...graphs),
  json: (graphs) => `${JSON.stringify(graphs.length === 1 ? graphs[0] : graphs, undefined, 2)}\n`,
};

export const policyGraphCommand: Command<"policy graph"> = async (
  { flags, operands },
  terminal,
) => {
  const draw = DRAW[flags.format ?? "mermaid"];
  const depth = flags.open ? ALL_OPEN : depthOf(flags.depth ?? "0");
  return view("policy graph", operands, flags, terminal, (policies) =>
    draw(policies.map((policy) => graphOf(policy, depth))),
  );
};

function depthOf(text: string): number {
  if (/^\d{1,3}$/.test(text)) return Number(text);
  const wanted = "wanted how many levels of composites to open, as a whole number";
  throw new Fault("INVALID_ARGUMENT", `--depth: ${wanted}, got ${JSON.stringify(text)}`);
}

type PolicyFlags = Pick<
  FlagsOf<(typeof SUBCOMMANDS)["policy expand"]["flags"]>,
  "queries" | "agent-group"
>;

/** Prints documents that compile, and the findings of those that do not. */
async function view(
  command: string,
  files: readonly string[],
  { queries, "agent-group": agentGroup }: PolicyFlags,
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
