// Policies side by side: everything that was read from a set of texts, judged one by one and together.

import { compilePolicy } from "./compile.ts";
import type { CompiledPolicy, CompileOptions } from "./compiled.ts";
import type { Finding, Notice } from "./finding.ts";
import { readPolicies } from "./read.ts";
import type { Position } from "./tree.ts";

/** One text that holds policies. */
export interface PolicyText {
  /** As people know it: a file's path. */
  readonly source: string;
  /** Names a policy that names itself not: the file's name without its extension. */
  readonly stem: string;
  readonly text: string;
}

export interface Sourced<T> {
  readonly source: string;
  readonly of: T;
}

export interface PolicySet {
  readonly policies: readonly Sourced<CompiledPolicy>[];
  /** Empty when the whole set can be used. */
  readonly findings: readonly Sourced<Finding>[];
  readonly warnings: readonly Sourced<Notice>[];
}

/** Good policies are listed even when others are at fault. */
export function compileSet(texts: readonly PolicyText[], options: CompileOptions): PolicySet {
  const policies: Sourced<CompiledPolicy>[] = [];
  const findings: Sourced<Finding>[] = [];
  const warnings: Sourced<Notice>[] = [];
  for (const { source, stem, text } of texts) {
    const reading = readPolicies(text, stem);
    const found = [...reading.findings];
    const noted = [...reading.warnings];
    for (const document of reading.documents) {
      const compiled = compilePolicy(document, options);
      if (compiled.ok) {
        policies.push({ source, of: compiled.policy });
        noted.push(...compiled.policy.warnings);
      } else {
        found.push(...compiled.findings);
        noted.push(...compiled.warnings);
      }
    }
    findings.push(...found.sort(byPlace).map((of) => ({ source, of })));
    warnings.push(...noted.sort(byPlace).map((of) => ({ source, of })));
  }
  findings.push(...judgeSet(policies));
  return { policies, findings, warnings };
}

/** As one reads the text. */
function byPlace(left: { readonly at: Position }, right: { readonly at: Position }): number {
  return left.at.line - right.at.line || left.at.column - right.at.column;
}

/** What each policy may do alone but not beside another: names are one space. */
export function judgeSet(policies: readonly Sourced<CompiledPolicy>[]): Sourced<Finding>[] {
  const findings: Sourced<Finding>[] = [];
  const names = new Map<string, Sourced<CompiledPolicy>>();
  const meters = new Map<string, Sourced<CompiledPolicy>>();
  const once = (
    seen: Map<string, Sourced<CompiledPolicy>>,
    name: string,
    what: string,
    own: Sourced<CompiledPolicy>,
  ): void => {
    const first = seen.get(name);
    if (first === undefined) {
      seen.set(name, own);
      return;
    }
    const { line, column } = first.of.at;
    const got = `${what} ${name} in policy ${own.of.name}, and in policy ${first.of.name} (${first.source}:${line}:${column})`;
    const wanted = `each ${what} once`;
    const of: Finding = { at: own.of.at, path: "", wanted, got };
    findings.push({ source: own.source, of });
  };
  for (const own of policies) {
    once(names, own.of.name, "policy name", own);
    for (const { kind, name } of own.of.configs) {
      if (kind === "flux_meter") once(meters, name, "flux meter name", own);
    }
  }
  return findings;
}
