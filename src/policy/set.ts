// Policies side by side: everything that was read from a set of texts, judged one by one and together.

import { compilePolicy } from "./compile.ts";
import type { AgentConfig, CompiledPolicy, CompileOptions, ConfigKind } from "./compiled.ts";
import { type Finding, type Notice, Report } from "./finding.ts";
import { readPolicies } from "./read.ts";

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

/** Good policies are listed even when others are at fault. What is said is bounded for each text. */
export function compileSet(texts: readonly PolicyText[], options: CompileOptions): PolicySet {
  const policies: Sourced<CompiledPolicy>[] = [];
  const reports = new Map<PolicyText, Report>();
  const origins = new Map<Sourced<CompiledPolicy>, Report>();
  for (const text of texts) {
    const report = new Report();
    reports.set(text, report);
    for (const document of readPolicies(text.text, text.stem, report).documents) {
      const compiled = compilePolicy(document, options, report);
      if (!compiled.ok) continue;
      const own = { source: text.source, of: compiled.policy };
      policies.push(own);
      origins.set(own, report);
    }
  }
  judgeTogether(policies, (own) => origins.get(own));
  const said = [...reports];
  return {
    policies,
    findings: said.flatMap(([text, { findings }]) => sourced(text, findings)),
    warnings: said.flatMap(([text, { warnings }]) => sourced(text, warnings)),
  };
}

function sourced<T>({ source }: { readonly source: string }, all: readonly T[]): Sourced<T>[] {
  return all.map((of) => ({ source, of }));
}

/** What each policy may do alone but not beside those before it. Bounded for each policy. */
export function judgeSet(policies: readonly Sourced<CompiledPolicy>[]): Sourced<Finding>[] {
  const reports = new Map(policies.map((own) => [own, new Report()]));
  judgeTogether(policies, (own) => reports.get(own));
  return [...reports].flatMap(([own, { findings }]) => sourced(own, findings));
}

const INFIX: Readonly<Partial<Record<ConfigKind, string>>> = {
  classifiers: "classifier_index",
  infra_meter: "infra_meter",
};

/** Names are joined where agents find things, unescaped: other names can make the same text. */
function placesOf(policy: string, { kind, name, agentGroups }: AgentConfig): readonly string[] {
  const end = `${policy}-${INFIX[kind] ?? "component_id"}-${name}`;
  return agentGroups.map((group) => `${kind} of agent_group-${group}-policy-${end}`);
}

/** Names of policies are one space, and those of flux meters are another; so are places in the store. */
function judgeTogether(
  policies: readonly Sourced<CompiledPolicy>[],
  reportOf: (own: Sourced<CompiledPolicy>) => Report | undefined,
): void {
  const names = new Map<string, Sourced<CompiledPolicy>>();
  const meters = new Map<string, Sourced<CompiledPolicy>>();
  const places = new Map<string, Sourced<CompiledPolicy>>();
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
    reportOf(own)?.refuse(own.of.at, [], `each ${what} once`, got);
  };
  for (const own of policies) {
    const again = names.has(own.of.name);
    once(names, own.of.name, "policy name", own);
    for (const config of own.of.configs) {
      if (config.kind === "flux_meter") once(meters, config.name, "flux meter name", own);
      else if (!again)
        for (const place of placesOf(own.of.name, config)) once(places, place, "place", own);
    }
  }
}
