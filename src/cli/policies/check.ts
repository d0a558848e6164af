// `sluice policy check`: compiles documents as the controller would, without running them, and prints the findings.

import { Fault } from "#base/fault.ts";
import type { Finding } from "#policy/document/finding.ts";
import { type SetLine, setLines } from "#policy/format.ts";
import type { CompiledSet } from "#policy/set.ts";
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
function checkReport({ policies, findings, warnings }: CompiledSet): object {
  return {
    policies: policies.map(({ source, name, hash, circuit }) => ({
      source,
      name,
      hash,
      components: circuit?.leaves.length ?? 0,
    })),
    findings: findings.map((each) => ({
      ...placeOf(each),
      wanted: each.wanted,
      got: each.got,
    })),
    warnings: warnings.map((each) => ({
      ...placeOf(each),
      code: each.code,
      text: each.text,
    })),
  };
}

function placeOf({ source, at, path }: Pick<Finding, "source" | "at" | "path">): object {
  return { source, line: at.line, column: at.column, path };
}
