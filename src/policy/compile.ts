// A document becomes rules and numbers for agents, or every reason why not. What needs a running circuit to
// steer an agent is refused; what feeds no agent is loaded and named as observing.

import type { LimiterNumbers, Rule } from "#flow/rules.ts";
import { canonicalJson } from "./canonical.ts";
import {
  describeSource,
  type Overrides,
  overrideAt,
  sourceOf,
  textsOf,
} from "./compile/constant.ts";
import {
  type CompiledLimiter,
  compileConcurrencyLimiter,
  compileRateLimiter,
  compileSampler,
  type LimiterContext,
} from "./compile/limiters.ts";
import { compileClassifier, compileFluxMeter, infraMeters } from "./compile/resources.ts";
import { buildScope, type Placed, type Refuse, type Scope } from "./compile/scope.ts";
import { type Finding, finding, type Notice, type Report } from "./finding.ts";
import { judge } from "./judge.ts";
import { query as queryTable } from "./language/control.ts";
import {
  component as componentTable,
  type Policy,
  policy as policyTable,
} from "./language/policy.ts";
import type { PolicyDocument } from "./read.ts";
import { formatPath, locate, type Path, type Position } from "./tree.ts";

export interface CompiledPolicy {
  readonly name: string;
  /** Names this version of the policy: equal for documents of equal meaning. */
  readonly hash: string;
  readonly at: Position;
  /** Classifiers and meters after limiters; limiters in component order. */
  readonly rules: readonly Rule[];
  readonly decisions: readonly LimiterNumbers[];
  /** Accepted, but not run by this version. */
  readonly observing: readonly Notice[];
  readonly warnings: readonly Notice[];
}

export type Compilation =
  | { readonly ok: true; readonly policy: CompiledPolicy }
  | {
      readonly ok: false;
      readonly findings: readonly Finding[];
      readonly warnings: readonly Notice[];
    };

/** SHA-256 as lower-case hex. An argument because this room computes and does not reach out. */
export type Digest = (text: string) => string;

const HASH_DIGITS = 32;

export function compilePolicy(document: PolicyDocument, digest: Digest): Compilation {
  const { tree, path, name } = document;
  const { value, findings, warnings } = judge(policyTable, tree, path);
  const report: Report = { findings: [...findings], warnings: [...warnings] };
  if (value === undefined) return { ok: false, ...report };
  const hash = digest(canonicalJson(value)).slice(0, HASH_DIGITS);
  const compiler = new Compiler(document, hash, report);
  compiler.circuit(value);
  compiler.resources(value);
  if (report.findings.length > 0) return { ok: false, ...report };
  const { rules, decisions, observing } = compiler;
  return {
    ok: true,
    policy: { name, hash, at: document.at, rules, decisions, observing, ...warningsOf(report) },
  };
}

function warningsOf({ warnings }: Report): Pick<CompiledPolicy, "warnings"> {
  return { warnings };
}

const OBSERVING = "observing, not run";

/** Gathers what one document compiles to. */
class Compiler {
  readonly rules: Rule[] = [];
  readonly decisions: LimiterNumbers[] = [];
  readonly observing: Notice[] = [];
  readonly #document: PolicyDocument;
  readonly #hash: string;
  readonly #report: Report;
  readonly #overrides: Overrides;

  constructor(document: PolicyDocument, hash: string, report: Report) {
    this.#document = document;
    this.#hash = hash;
    this.#report = report;
    this.#overrides = {
      at: (key) => overrideAt(document.dynamicConfig, key),
      setAside: (key, wanted) => {
        const at = overrideAt(document.dynamicConfig, key)?.at ?? document.at;
        const text = `set aside: ${wanted} is wanted`;
        report.warnings.push({ at, path: formatPath(["dynamicConfig", key]), text });
      },
    };
  }

  #refuse: Refuse = (path, wanted, got) => {
    this.#report.findings.push(finding(locate(this.#document.root, path), path, wanted, got));
  };

  #observe(path: Path): void {
    const at = locate(this.#document.root, path);
    this.observing.push({ at, path: formatPath(path), text: OBSERVING });
  }

  circuit({ circuit }: Policy): void {
    if (circuit === undefined) return;
    const path = [...this.#document.path, "circuit", "components"];
    const scope = buildScope("root", circuit.components, path, this.#refuse);
    this.#components(scope);
    if (circuit.evaluation_interval > 0) return;
    // Without ticks nothing is ever decided: what agents do without numbers is theirs to say.
    this.decisions.length = 0;
    const at = [...this.#document.path, "circuit", "evaluation_interval"];
    this.#report.warnings.push({
      at: locate(this.#document.root, at),
      path: formatPath(at),
      text: "the circuit never runs, and its limiters get no numbers",
    });
  }

  #components(scope: Scope): void {
    for (const placed of scope.components) {
      const limiter = this.#limiter(placed);
      if (limiter !== undefined) {
        this.rules.push(limiter.rule);
        this.decisions.push(limiter.numbers);
      }
      if (isObserving(placed)) this.#observe([...placed.path, ...placed.kind.split(".")]);
      if (placed.inner !== undefined) this.#components(placed.inner);
    }
  }

  #limiter(placed: Placed): CompiledLimiter | undefined {
    const { flow_control: flow } = placed.component;
    const context = this.#context(placed);
    if (flow?.rate_limiter !== undefined) return compileRateLimiter(flow.rate_limiter, context);
    if (flow?.sampler !== undefined) return compileSampler(flow.sampler, context);
    if (flow?.concurrency_limiter === undefined) return undefined;
    return compileConcurrencyLimiter(flow.concurrency_limiter, context);
  }

  #context(placed: Placed): LimiterContext {
    return {
      policyName: this.#document.name,
      policyHash: this.#hash,
      componentId: placed.id,
      read: (name, port) => {
        const source = sourceOf(placed.scope, port, this.#overrides);
        const path = [...placed.path, ...placed.kind.split("."), "in_ports", name];
        if (source.kind === "constant") {
          this.#doubt(path, name, source.value);
          return source.value;
        }
        const wanted = "a constant, a variable or a bool_variable (this version runs no circuits)";
        const at = locate(this.#document.root, path);
        this.#report.findings.push(
          finding(at, path, wanted, describeSource(source), "unsupported"),
        );
        return Number.NaN;
      },
      values: (key) => textsOf(key, this.#overrides),
    };
  }

  /** Numbers that are allowed and seldom meant. */
  #doubt(path: Path, port: string, value: number): void {
    const doubt = Number.isNaN(value)
      ? "no valid number: lets everything pass (a sampler in ramp mode: nothing)"
      : "negative: counts as 0";
    if (port === "pass_through" || value >= 0) return;
    const at = locate(this.#document.root, path);
    this.#report.warnings.push({ at, path: formatPath(path), text: doubt });
  }

  resources({ resources }: Policy): void {
    if (resources === undefined) return;
    const path = [...this.#document.path, "resources"];
    const identity = { policyName: this.#document.name, policyHash: this.#hash };
    for (const [index, classifier] of (resources.flow_control?.classifiers ?? []).entries()) {
      this.rules.push(compileClassifier(classifier, index, identity));
    }
    for (const [name, meter] of resources.flow_control?.flux_meters ?? []) {
      this.rules.push(compileFluxMeter(name, meter, identity));
    }
    for (const meter of infraMeters(resources, path, this.#refuse)) this.#observe(meter);
  }
}

function isObserving({ kind }: Placed): boolean {
  const [outer = "", inner] = kind.split(".");
  if (outer === "query") return queryTable.fields[inner ?? ""]?.standing === "observing";
  return componentTable.fields[outer]?.standing === "observing";
}
