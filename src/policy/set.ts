// Compiles a set of texts, such as the files of a directory: each policy on its own, and conflicts between them.

import { finish } from "#base/async/steps.ts";
import { compileInSteps } from "./compile.ts";
import type { AgentConfig, CompiledPolicy, CompileOptions, ConfigKind } from "./compiled.ts";
import { type Finding, Report } from "./document/finding.ts";
import { readPolicies } from "./document/read.ts";
import type { Warning } from "./document/warning.ts";
import type { Policy } from "./language/policy.ts";

/** One text that holds policies. */
export interface PolicyText {
  /** Names the text in messages: a file's path. */
  readonly source: string;
  /** Default name for a policy that has none: the file name without its extension. */
  readonly defaultName: string;
  readonly text: string;
  /** The namespace to whose services, objects and names its policies are confined; absent where they may reach everything. */
  readonly namespace?: string | undefined;
}

export interface Sourced<T> {
  readonly source: string;
  readonly of: T;
}

export interface PolicySet {
  readonly policies: readonly Sourced<CompiledPolicy>[];
  /** Valid documents whose policies cannot be compiled. */
  readonly uncompiled?: readonly Sourced<Policy>[];
  /** Empty when the whole set is valid. */
  readonly findings: readonly Sourced<Finding>[];
  readonly warnings: readonly Sourced<Warning>[];
}

/** Valid policies are returned even when others are invalid. Findings and warnings are bounded per text. */
export function compileSet(texts: readonly PolicyText[], options: CompileOptions): PolicySet {
  return finish(compileSetInSteps(texts, options));
}

/** As `compileSet`, in steps of which none is longer than reading or compiling one policy. */
export function* compileSetInSteps(
  texts: readonly PolicyText[],
  options: CompileOptions,
): Generator<void, PolicySet> {
  const policies: Sourced<CompiledPolicy>[] = [];
  const uncompiled: Sourced<Policy>[] = [];
  const reports = new Map<PolicyText, Report>();
  const origins = new Map<Sourced<CompiledPolicy>, Report>();
  for (const text of texts) {
    const report = new Report();
    reports.set(text, report);
    const { namespace } = text;
    for (const document of readPolicies(text.text, text.defaultName, report, namespace).documents) {
      yield;
      const compiled = yield* compileInSteps(document, { ...options, namespace }, report);
      const { source } = text;
      if (!compiled.ok) {
        if (compiled.document !== undefined) uncompiled.push({ source, of: compiled.document });
        continue;
      }
      const own = { source, of: compiled.policy };
      policies.push(own);
      origins.set(own, report);
    }
  }
  checkAcrossPolicies(policies, (own) => origins.get(own));
  const all = [...reports];
  return {
    policies,
    uncompiled,
    findings: all.flatMap(([text, { findings }]) => sourced(text, findings)),
    warnings: all.flatMap(([text, { warnings }]) => sourced(text, warnings)),
  };
}

function sourced<T>({ source }: { readonly source: string }, all: readonly T[]): Sourced<T>[] {
  return all.map((of) => ({ source, of }));
}

/** Conflicts of each policy with those before it. Findings are bounded per policy. */
export function validateSet(policies: readonly Sourced<CompiledPolicy>[]): Sourced<Finding>[] {
  const reports = new Map(policies.map((own) => [own, new Report()]));
  checkAcrossPolicies(policies, (own) => reports.get(own));
  return [...reports].flatMap(([own, { findings }]) => sourced(own, findings));
}

const INFIX: Readonly<Partial<Record<ConfigKind, string>>> = {
  classifiers: "classifier_index",
  infra_meter: "infra_meter",
};

/** Store keys of a configuration. Names are joined without escaping, so different names can give the same key. */
function keysOf(policy: string, { kind, name, agentGroups }: AgentConfig): readonly string[] {
  const end = `${policy}-${INFIX[kind] ?? "component_id"}-${name}`;
  return agentGroups.map((group) => `${kind} of agent_group-${group}-policy-${end}`);
}

/** Policy names, flux meter names and store keys must each be unique in the set. */
function checkAcrossPolicies(
  policies: readonly Sourced<CompiledPolicy>[],
  reportOf: (own: Sourced<CompiledPolicy>) => Report | undefined,
): void {
  const names = new Map<string, Sourced<CompiledPolicy>>();
  const meters = new Map<string, Sourced<CompiledPolicy>>();
  const keys = new Map<string, Sourced<CompiledPolicy>>();
  const claim = (
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
    const got = `${what} ${name} in policy ${own.of.name} and in policy ${first.of.name} (${first.source}:${line}:${column})`;
    reportOf(own)?.refuse(own.of.at, [], `a unique ${what}`, got);
  };
  for (const own of policies) {
    const again = names.has(own.of.name);
    claim(names, own.of.name, "policy name", own);
    for (const config of own.of.configs) {
      if (config.kind === "flux_meter") claim(meters, config.name, "flux meter name", own);
      else if (!again)
        for (const key of keysOf(own.of.name, config)) claim(keys, key, "store key", own);
    }
  }
}
