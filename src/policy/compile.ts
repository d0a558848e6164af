// A document becomes a circuit that the controller runs and configurations for agents, or every reason why not.

import type { CircuitPlan } from "#circuit/plan.ts";
import { canonicalJson } from "./canonical.ts";
import { type Actuating, agentConfigs } from "./compile/configs.ts";
import { doubtsOf, placeOf } from "./compile/doubts.ts";
import { draftOf } from "./compile/drafts.ts";
import { flatten, MOST_LEAVES } from "./compile/flatten.ts";
import { judgeCircuit } from "./compile/wiring.ts";
import type { Compilation, CompileOptions, JsonObject } from "./compiled.ts";
import { judgeDynamicConfig } from "./dynamic.ts";
import { type Refuse, Report } from "./finding.ts";
import { judge } from "./judge.ts";
import { type Policy, policy as policyTable } from "./language/policy.ts";
import type { PolicyDocument } from "./read/wrappers.ts";
import { locate, type Path, plain } from "./tree.ts";

const HASH_DIGITS = 32;

/** `report` is that of the text: it may hold findings of other documents already. */
export function compilePolicy(
  document: PolicyDocument,
  options: CompileOptions,
  report = new Report(),
): Compilation {
  const { tree, path, name, at } = document;
  const before = report.faults;
  const value = judge(policyTable, tree, path, report);
  if (value === undefined) return { ok: false, findings: report.findings };
  const refuse: Refuse = (where, wanted, got) =>
    report.refuse(() => locate(document.root, where), where, wanted, got);
  const hash = options.digest(canonicalJson(value)).slice(0, HASH_DIGITS);
  const owner = { policyName: name, policyHash: hash };
  const { circuit, actuating } = compileCircuit(value, owner, path, { ...options, refuse });
  const configs = agentConfigs(actuating, value.resources, [...path, "resources"], refuse);
  if (report.faults > before) return { ok: false, findings: report.findings };
  sayDoubts(document, value, { circuit, actuating }, report);
  const dynamicConfig = document.dynamicConfig && (plain(document.dynamicConfig) as JsonObject);
  return {
    ok: true,
    policy: { name, hash, at, document: value, dynamicConfig, circuit, configs },
  };
}

/** Timers go no finer. */
const SHORTEST_MS = 1;

/** `path` is where the policy stands. Without faults, whole; with faults, nothing. */
function compileCircuit(
  { circuit }: Policy,
  owner: { readonly policyName: string; readonly policyHash: string },
  path: Path,
  { digest, queries, refuse }: CompileOptions & { readonly refuse: Refuse },
): { readonly circuit: CircuitPlan | undefined; readonly actuating: readonly Actuating[] } {
  const nothing = { circuit: undefined, actuating: [] };
  if (circuit === undefined) return nothing;
  let sound = true;
  const say: Refuse = (...fault) => {
    sound = false;
    refuse(...fault);
  };
  const { components, evaluation_interval: intervalMs } = circuit;
  const place = [...path, "circuit", "components"];
  if (intervalMs > 0 && intervalMs < SHORTEST_MS) {
    const wanted = `0s, or at least ${SHORTEST_MS / 1_000}s`;
    say([...path, "circuit", "evaluation_interval"], wanted, `${intervalMs / 1_000}s`);
  }
  judgeCircuit({ components, path: place, queries }, say);
  if (!sound) return nothing;
  const flat = flatten(
    components.map((component) => draftOf(component, owner)),
    digest,
  );
  if (flat === undefined) {
    say(place, `at most ${MOST_LEAVES} components, those inside composites counted`, "more");
    return nothing;
  }
  const { plan, actuating } = flat;
  const runs = intervalMs > 0 && plan.leaves.length > 0;
  return { circuit: runs ? { ...owner, intervalMs, ...plan } : undefined, actuating };
}

/** What is allowed and seldom meant, beyond what each message says of itself. */
function sayDoubts(
  { root, path, dynamicConfig }: PolicyDocument,
  policy: Policy,
  compiled: {
    readonly circuit: CircuitPlan | undefined;
    readonly actuating: readonly Actuating[];
  },
  report: Report,
): void {
  const { circuit } = policy;
  for (const { id, port, text } of compiled.circuit ? doubtsOf(compiled.circuit) : []) {
    const where = [...path, ...placeOf(id)];
    report.note(() => locate(root, where), where, `${port} is ${text}`);
  }
  if (circuit?.evaluation_interval === 0 && circuit.components.length > 0) {
    const where = [...path, "circuit", "evaluation_interval"];
    const numbers = compiled.actuating.length > 0 ? ", and its agents get no numbers" : "";
    report.note(() => locate(root, where), where, `the circuit never runs${numbers}`);
  }
  if (dynamicConfig === undefined) return;
  judgeDynamicConfig(policy, dynamicConfig, [...path.slice(0, -1), "dynamicConfig"], report);
}
