// `sluice policy check`: compiles documents as the controller would, without running them, and prints the findings.

import { Fault } from "#base/fault.ts";
import type { Position } from "#policy/document/tree.ts";
import { type SetLine, setLines } from "#policy/format.ts";
import type { PolicySet, Sourced } from "#policy/set.ts";
import { EXIT } from "#runtime/life/run.ts";
import type { Command } from "../subcommands.ts";
import { paintFor, printJson, type Tone } from "../terminal.ts";
import { checkFiles } from "./files.ts";

const TONES: Readonly<Record<SetLine["kind"], Tone | undefined>> = {
  finding: "bad",
  warning: "doubtful",
  policy: undefined,
  summary: "strong",
};

export const policyCheckCommand: Command<"policy check"> = async (
  { flags, operands },
  terminal,
) => {
  const { queries, strict, namespace, label: labels = [] } = flags;
  if (labels.some((label) => label.trim() === "")) {
    throw new Fault("INVALID_ARGUMENT", "--label: wanted the name of a label, got nothing");
  }
  if (namespace?.trim() === "") {
    throw new Fault("INVALID_ARGUMENT", "--namespace: wanted the name of a namespace, got nothing");
  }
  const judging = {
    queries,
    namespace,
    labels,
    agentGroup: flags["agent-group"],
    scales: flags["auto-scale"] ?? false,
  };
  const set = await checkFiles("policy check", operands, terminal, judging);
  const refused = set.findings.length > 0 || (strict === true && set.warnings.length > 0);
  if (flags.json) printJson(terminal, { ok: !refused, ...checkReport(set) });
  else {
    const print = refused ? terminal.err : terminal.out;
    const paint = paintFor(terminal, refused ? "err" : "out");
    for (const { kind, text } of setLines(set)) {
      const tone = TONES[kind];
      print(`${tone === undefined ? text : paint(tone, text)}\n`);
    }
  }
  return refused ? EXIT.refused : EXIT.clean;
};

/** The report for editors. Lines and columns start at 1. */
function checkReport({ policies, findings, warnings }: PolicySet): object {
  return {
    policies: policies.map(({ source, of: { name, hash, circuit } }) => ({
      source,
      name,
      hash,
      components: circuit?.leaves.length ?? 0,
    })),
    findings: findings.map((each) => ({
      ...placeOf(each),
      wanted: each.of.wanted,
      got: each.of.got,
    })),
    warnings: warnings.map((each) => ({
      ...placeOf(each),
      code: each.of.code,
      text: each.of.text,
    })),
  };
}

function placeOf({
  source,
  of,
}: Sourced<{ readonly at: Position; readonly path: string }>): object {
  return { source, line: of.at.line, column: of.at.column, path: of.path };
}
