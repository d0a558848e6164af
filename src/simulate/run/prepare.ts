// The scenario beside the policies: names that nothing has, queries that nobody would answer, recordings that
// cannot be read. Everything at once, before anything runs.

import { Fault } from "#base/fault.ts";
import { nearest } from "#base/near.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { type Finding, finding } from "#policy/finding.ts";
import { quote } from "#policy/tree.ts";
import { judgeQuery } from "#promql/judge.ts";
import { oversized } from "../scenario/bounds.ts";
import type { Expectation } from "../scenario/expectation.ts";
import type { Placed } from "../scenario/shape.ts";
import type { Scenario, Script } from "../scenario.ts";
import { isFor, type Question, questionsOf, type Scripted, scripted } from "./answers.ts";
import { aliases, MODEL_SERIES, type ModelSeries, modelName } from "./names.ts";
import { unreadKeys } from "./unread.ts";
import { sortsOf } from "./verdicts.ts";

/** Names that people may use, each with the full names that it stands for. */
export type Named = ReadonlyMap<string, readonly string[]>;

export interface Prepared {
  readonly findings: readonly Finding[];
  readonly names: Named;
  /** By policy and component. */
  readonly scripts: ReadonlyMap<string, ReadonlyMap<string, Scripted>>;
  /** Those that the own evaluator answers. */
  readonly queries: readonly string[];
}

export function prepare(
  policies: readonly CompiledPolicy[],
  scenario: Scenario,
  files: ReadonlyMap<string, string>,
): Prepared {
  return new Preparation(policies, scenario, files).done();
}

class Preparation {
  readonly #policies: readonly CompiledPolicy[];
  readonly #scenario: Scenario;
  readonly #files: ReadonlyMap<string, string>;
  readonly #findings: Finding[] = [];
  readonly #names: Named;

  constructor(
    policies: readonly CompiledPolicy[],
    scenario: Scenario,
    files: ReadonlyMap<string, string>,
  ) {
    this.#policies = policies;
    this.#scenario = scenario;
    this.#files = files;
    const plans = policies.flatMap(({ circuit }) => circuit ?? []);
    const names = new Map(aliases(plans));
    for (const { name } of scenario.services) {
      for (const series of Object.keys(MODEL_SERIES)) {
        const full = modelName(name, series as ModelSeries);
        names.set(full, [full]);
      }
    }
    this.#names = names;
  }

  done(): Prepared {
    const { expectations, plot } = this.#scenario;
    const questions = this.#policies.flatMap(({ circuit }) =>
      circuit === undefined ? [] : questionsOf(circuit),
    );
    const scripts = this.#scripts(questions);
    const open = questions.filter(({ policy, component }) => !scripts.get(policy)?.has(component));
    this.#answerable(open);
    this.#size();
    this.#changes();
    for (const expectation of expectations) this.#expectation(expectation);
    for (const name of plot.flatMap(({ series }) => series)) this.#name(name, name.value);
    return {
      findings: this.#findings.toSorted(
        (a, b) => a.at.line - b.at.line || a.at.column - b.at.column,
      ),
      names: this.#names,
      scripts,
      queries: open.map(({ query }) => query),
    };
  }

  #scripts(questions: readonly Question[]): Map<string, Map<string, Scripted>> {
    const scripts = new Map<string, Map<string, Scripted>>();
    for (const placed of this.#scenario.scripts) {
      const answers = this.#scripted(placed);
      const meant = questions.filter((question) => isFor(placed.value, question));
      if (meant.length === 0) this.#unasked(placed, questions);
      for (const { policy, component } of meant) {
        const own = scripts.get(policy) ?? new Map<string, Scripted>();
        if (own.has(component)) {
          this.#say(placed, "one series for each query", `another for ${policy} ${component}`);
        }
        if (answers !== undefined) scripts.set(policy, own.set(component, answers));
      }
    }
    return scripts;
  }

  #scripted({ value, at, path }: Placed<Script>): Scripted | undefined {
    try {
      return scripted(value, this.#files);
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      const file = value.source.kind === "recording" ? value.source.of.file : "";
      const [wanted = message, got = "another"] = message.replace(/^wanted /, "").split(", got ");
      this.#findings.push(finding(at, [...path, "recording"], `${file}: ${wanted}`, got));
      return undefined;
    }
  }

  #unasked(placed: Placed<Script>, questions: readonly Question[]): void {
    const { query, component, policy } = placed.value;
    this.#policy(placed, policy);
    const asked =
      component !== undefined
        ? questions.map((question) => question.component)
        : questions.map((question) => quote(question.query));
    const wanted =
      asked.length === 0
        ? "a policy that asks queries"
        : `one out of ${[...new Set(asked)].join(", ")}`;
    this.#say(placed, wanted, component ?? quote(query ?? ""));
  }

  /** What the scenario does not answer must be answerable here. */
  #answerable(open: readonly Question[]): void {
    for (const { policy, component, query } of open) {
      for (const fault of judgeQuery(query, "own")) {
        const wanted = `a series for the query of ${policy} ${component}, which cannot be answered here: ${fault}`;
        this.#findings.push(finding({ line: 1, column: 1 }, ["series"], wanted, "none"));
      }
    }
  }

  #size(): void {
    const plans = this.#policies.flatMap(({ circuit }) => circuit ?? []);
    const over = oversized(plans, this.#scenario.durationMs);
    if (over === undefined) return;
    this.#findings.push(finding({ line: 1, column: 1 }, ["duration"], over.wanted, over.got));
  }

  #changes(): void {
    for (const placed of this.#scenario.changes) {
      const { at, policy } = placed.value;
      this.#policy(placed, policy);
      this.#inTime(placed, "at", at);
      const meant = this.#policies.filter(({ name }) => policy === undefined || name === policy);
      if (meant.length > 0) this.#findings.push(...unreadKeys(placed, meant));
    }
  }

  #expectation(placed: Placed<Expectation>): void {
    const { phase, from, until, measure } = placed.value;
    const { phases, services } = this.#scenario;
    const names = phases.map(({ name }) => name);
    if (phase !== undefined && !names.includes(phase)) this.#unknown(placed, "phase", phase, names);
    if (from !== undefined) this.#inTime(placed, "from", from);
    if (until !== undefined && until > this.#scenario.durationMs) {
      this.#say(
        placed,
        `until within the duration, ${this.#scenario.durationMs} ms`,
        `${until} ms`,
      );
    }
    if ("which" in measure) {
      const { service, labels } = measure.which;
      const known = services.map(({ name }) => name);
      if (service !== undefined && !known.includes(service)) {
        this.#unknown(placed, "service", service, known);
      } else if (sortsOf(measure.which, services).size === 0) {
        const got = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
        this.#say(placed, "labels of a sort of requests", got.join(" ") || "no service");
      }
    } else if (measure.kind !== "alerts") this.#name(placed, measure.name);
  }

  /** A signal or model series. */
  #name(placed: Placed<unknown>, name: string): void {
    const found = this.#names.get(name) ?? [];
    if (found.length > 1) {
      this.#say(placed, `one signal: ${found.join(" or ")}`, quote(name));
      return;
    }
    if (found.length === 1) return;
    const known = [...this.#names.keys()];
    if (this.#policies.length === 0 && nearest(name, known) === undefined) {
      const wanted = "a series of a service, or a policy that has such a signal: this run has none";
      this.#say(placed, wanted, quote(name));
    } else this.#unknown(placed, "signal or model series", name, known);
  }

  #policy(placed: Placed<unknown>, name: string | undefined): void {
    const names = this.#policies.map((policy) => policy.name);
    if (name !== undefined && !names.includes(name)) this.#unknown(placed, "policy", name, names);
  }

  #inTime(placed: Placed<unknown>, key: string, at: number): void {
    const { durationMs } = this.#scenario;
    if (at >= durationMs) this.#say(placed, `${key} before the end, ${durationMs} ms`, `${at} ms`);
  }

  #unknown(placed: Placed<unknown>, what: string, got: string, known: readonly string[]): void {
    const near = nearest(got, known);
    const short = known.filter((name) => !name.includes("/"));
    const hint = near === undefined ? `: ${short.join(", ")}` : `; did you mean ${near}?`;
    this.#say(placed, `a ${what}${hint}`, quote(got));
  }

  #say({ at, path }: Placed<unknown>, wanted: string, got: string): void {
    this.#findings.push(finding(at, path, wanted, got));
  }
}
