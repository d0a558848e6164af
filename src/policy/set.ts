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

export interface CompiledSet {
  readonly policies: readonly CompiledPolicy[];
  /** Valid documents whose policies cannot be compiled. */
  readonly uncompiled?: readonly Policy[];
  /** Empty when the whole set is valid. */
  readonly findings: readonly Finding[];
  readonly warnings: readonly Warning[];
}

/** Valid policies are returned even when others are invalid. Findings and warnings are bounded per text. */
export function compileSet(texts: readonly PolicyText[], options: CompileOptions): CompiledSet {
  return finish(compileSetInSteps(texts, options));
}

/** As `compileSet`, in steps of which none is longer than reading or compiling one policy. */
export function* compileSetInSteps(
  texts: readonly PolicyText[],
  options: CompileOptions,
): Generator<void, CompiledSet> {
  const policies = new Map<CompiledPolicy, Report>();
  const uncompiled: Policy[] = [];
  const reports: Report[] = [];
  for (const { source, text, defaultName, namespace } of texts) {
    const report = new Report(source);
    reports.push(report);
    for (const document of readPolicies(text, defaultName, report, namespace).documents) {
      yield;
      const compiled = yield* compileInSteps(document, { ...options, namespace }, report);
      if (compiled.ok) policies.set(compiled.policy, report);
      else if (compiled.document !== undefined) uncompiled.push(compiled.document);
    }
  }
  checkAcrossPolicies(policies);
  return {
    policies: [...policies.keys()],
    uncompiled,
    findings: reports.flatMap(({ findings }) => findings),
    warnings: reports.flatMap(({ warnings }) => warnings),
  };
}

/** Conflicts of each policy with those before it. Findings are bounded per policy. */
export function validateSet(policies: readonly CompiledPolicy[]): Finding[] {
  const reports = new Map(policies.map((policy) => [policy, new Report(policy.source)]));
  checkAcrossPolicies(reports);
  return [...reports.values()].flatMap(({ findings }) => findings);
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
function checkAcrossPolicies(policies: ReadonlyMap<CompiledPolicy, Report>): void {
  const names = new Map<string, CompiledPolicy>();
  const meters = new Map<string, CompiledPolicy>();
  const keys = new Map<string, CompiledPolicy>();
  for (const [policy, report] of policies) {
    const claim = (owners: Map<string, CompiledPolicy>, name: string, what: string): void => {
      const owner = owners.get(name);
      if (owner === undefined) {
        owners.set(name, policy);
        return;
      }
      const { line, column } = owner.at;
      const got = `${what} ${name} in policy ${policy.name} and in policy ${owner.name} (${owner.source}:${line}:${column})`;
      report.refuse(policy.at, [], `a unique ${what}`, got);
    };
    const again = names.has(policy.name);
    claim(names, policy.name, "policy name");
    for (const config of policy.configs) {
      if (config.kind === "flux_meter") claim(meters, config.name, "flux meter name");
      else if (!again) for (const key of keysOf(policy.name, config)) claim(keys, key, "store key");
    }
  }
}
