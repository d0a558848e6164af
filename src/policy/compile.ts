// Compiles one document to a circuit that the controller runs and configurations for agents, or reports
// everything that is wrong with it.

import { finish } from "#base/async/steps.ts";
import type { CircuitPlan } from "#circuit/plan.ts";
import { resourceConfigs } from "./compile/agents/resources.ts";
import { draftComponent } from "./compile/draft-component.ts";
import { flappingDeciders } from "./compile/flapping.ts";
import { flatten, MAX_LEAVES } from "./compile/flatten/flatten.ts";
import { pathOf, portWarnings } from "./compile/port-warnings.ts";
import { checkWiring } from "./compile/wiring.ts";
import type { AgentConfig, Compilation, CompileOptions, JsonObject, Need } from "./compiled.ts";
import { type Refuse, Report } from "./document/finding.ts";
import { locate, type Path, plain, writtenPath } from "./document/tree.ts";
import type { PolicyDocument } from "./document/wrappers.ts";
import { checkDynamicConfig } from "./dynamic.ts";
import { type Policy, policy as policyTable } from "./language/policy.ts";
import { canonicalJson } from "./message.ts";
import { readsFluxMeter } from "./needs/queries.ts";
import { componentAt, needsOf, supplyOf } from "./needs.ts";
import { checkConfinement, checkSize } from "./validate/confinement.ts";
import { validate } from "./validate.ts";

const HASH_DIGITS = 32;

/** `report` is that of the whole text, so it may already hold findings of other documents. */
export function compilePolicy(
  document: PolicyDocument,
  options: CompileOptions,
  report = new Report(),
): Compilation {
  return finish(compileInSteps(document, options, report));
}

/** As `compilePolicy`, in steps: the first policy that a process compiles takes several times as long as later ones. */
export function* compileInSteps(
  document: PolicyDocument,
  options: CompileOptions,
  report: Report,
): Generator<void, Compilation> {
  const { tree, path, name, at } = document;
  const before = report.faults;
  const mark = report.warningMark;
  const value = validate(policyTable, tree, path, report, options);
  if (value === undefined) return { ok: false, findings: report.findings };
  yield;
  const refuse: Refuse = (compiled, wanted, got) => {
    const where = [...path, ...writtenPath(tree, compiled.slice(path.length))];
    report.refuse(() => locate(document.root, where), where, wanted, got);
  };
  const { namespace } = options;
  if (namespace !== undefined) checkConfinement(value, namespace, path, refuse);
  const hash = options.digest(canonicalJson(value)).slice(0, HASH_DIGITS);
  const owner = { policyName: name, policyHash: hash };
  const compiled = compileCircuit(value, owner, path, { ...options, refuse });
  if (namespace !== undefined) checkSize(compiled.circuit?.leaves.length ?? 0, path, refuse);
  const resources = resourceConfigs(value.resources, [...path, "resources"], refuse);
  if (report.faults > before) return { ok: false, findings: report.findings, document: value };
  yield;
  const { circuit } = compiled;
  const needs = needsOf(value, circuit, document);
  addWarnings(document, value, compiled, report);
  warnOfTargets(document, needs, report);
  const dynamicConfig = document.dynamicConfig && (plain(document.dynamicConfig) as JsonObject);
  const configs = [...compiled.configs, ...resources];
  return {
    ok: true,
    policy: {
      source: report.source,
      name,
      hash,
      at,
      document: value,
      dynamicConfig,
      circuit,
      configs,
      warnings: report.warningsSince(mark),
      needs,
      supply: supplyOf(value),
    },
  };
}

/** The shortest evaluation interval: timers have no finer resolution. */
const MIN_INTERVAL_MS = 1;

interface CompiledCircuit {
  readonly circuit: CircuitPlan | undefined;
  /** For agents, of the components that they carry out. */
  readonly configs: readonly AgentConfig[];
}

/** `path` is the place of the policy. The result is empty when anything was refused. */
function compileCircuit(
  { circuit }: Policy,
  owner: { readonly policyName: string; readonly policyHash: string },
  path: Path,
  { digest, queries, refuse }: CompileOptions & { readonly refuse: Refuse },
): CompiledCircuit {
  const nothing = { circuit: undefined, configs: [] };
  if (circuit === undefined) return nothing;
  let valid = true;
  const reject: Refuse = (...fault) => {
    valid = false;
    refuse(...fault);
  };
  const { components, evaluation_interval: intervalMs } = circuit;
  const place = [...path, "circuit", "components"];
  if (intervalMs > 0 && intervalMs < MIN_INTERVAL_MS) {
    const wanted = `0s, or at least ${MIN_INTERVAL_MS / 1_000}s`;
    reject([...path, "circuit", "evaluation_interval"], wanted, `${intervalMs / 1_000}s`);
  }
  checkWiring({ components, path: place, queries }, reject);
  if (!valid) return nothing;
  const flat = flatten(
    components.map((component) => draftComponent(component, owner)),
    digest,
  );
  if (flat === undefined) {
    reject(place, `at most ${MAX_LEAVES} components, those inside composites counted`, "more");
    return nothing;
  }
  const { plan, configs } = flat;
  const runs = intervalMs > 0 && plan.leaves.length > 0;
  return { circuit: runs ? { ...owner, intervalMs, ...plan } : undefined, configs };
}

const FLAPPING =
  "the decision acts at once on the flows that it measures, so it may flip for ever: give it a hold (true_for and false_for), or hysteresis (a second decider with another threshold that alone ends the action)";

/** The places of deciders that may flip for ever. Those inside composites are not the author's. */
function flapping(policy: Policy, plan: CircuitPlan): readonly Path[] {
  const { fluxMeters } = supplyOf(policy);
  const measures = (query: string) => fluxMeters.some((name) => readsFluxMeter(query, name));
  return flappingDeciders(plan, measures)
    .map((id) => componentAt(policy, id))
    .flatMap(({ component, path }) => (component?.decider === undefined ? [] : [path]));
}

/** Warns of a target whose requests no selector chooses: they would be checked and nothing would happen to them. */
function warnOfTargets(
  { targets = [], root, path }: PolicyDocument,
  needs: readonly Need[],
  report: Report,
): void {
  const selected = new Set(
    needs.flatMap(({ kind, name }) => (kind === "control_point" ? [name] : [])),
  );
  for (const [index, { controlPoint }] of targets.entries()) {
    if (selected.has(controlPoint)) continue;
    const where = [...path, "targetRefs", index];
    const text = `every selector names another control point than ${controlPoint}, so the policy does nothing to these requests`;
    report.warn("unusual_value", () => locate(root, where), where, text);
  }
}

/** Warns of what is allowed but rarely meant and only the compiled circuit or the dynamic configuration shows. */
function addWarnings(
  { root, path, dynamicConfig }: PolicyDocument,
  policy: Policy,
  compiled: CompiledCircuit,
  report: Report,
): void {
  const { circuit } = policy;
  for (const { id, port, text } of compiled.circuit ? portWarnings(compiled.circuit) : []) {
    const where = [...path, ...pathOf(id)];
    report.warn("unusual_value", () => locate(root, where), where, `${port} is ${text}`);
  }
  for (const where of compiled.circuit ? flapping(policy, compiled.circuit) : []) {
    const at = [...path, ...where];
    report.warn("flapping", () => locate(root, at), at, FLAPPING);
  }
  if (circuit?.evaluation_interval === 0 && circuit.components.length > 0) {
    const where = [...path, "circuit", "evaluation_interval"];
    const numbers = compiled.configs.length > 0 ? ", so agents get no decisions" : "";
    report.warn(
      "unusual_value",
      () => locate(root, where),
      where,
      `the circuit never runs${numbers}`,
    );
  }
  if (dynamicConfig === undefined) return;
  const checked = { document: policy, circuit: compiled.circuit };
  checkDynamicConfig(checked, dynamicConfig, [...path.slice(0, -1), "dynamicConfig"], report);
}
