// Checks a scenario against the policies before the run: unknown names, queries without an answer, unreadable
// recordings. Reports all findings at once.

import { Fault } from "#base/fault.ts";
import { nearest } from "#base/text/spelling.ts";
import type { CompiledPolicy } from "#policy/compiled.ts";
import { type Finding, Report } from "#policy/document/finding.ts";
import { quote, START } from "#policy/document/tree.ts";
import { validateQuery } from "#promql/validate.ts";
import { oversized } from "../scenario/bounds.ts";
import type { Expectation } from "../scenario/expectation.ts";
import type { Located } from "../scenario/schema.ts";
import type { Scenario, Script } from "../scenario.ts";
import {
  type PolicyQuery,
  policyQueriesOf,
  type Scripted,
  scriptAnswers,
  scripted,
} from "./answers.ts";
import { aliases, MODEL_SERIES, type ModelSeries, modelName } from "./names.ts";
import { classesOf } from "./results/outcomes.ts";
import { refuseUnreadKeys } from "./unread.ts";

/** All accepted names, each with the full names that it may refer to. */
export type SeriesNames = ReadonlyMap<string, readonly string[]>;

export interface Prepared {
  readonly findings: readonly Finding[];
  readonly names: SeriesNames;
  /** By policy and component. */
  readonly scripts: ReadonlyMap<string, ReadonlyMap<string, Scripted>>;
  /** Queries that the local evaluator answers, because the scenario does not script them. */
  readonly queries: readonly string[];
}

export function prepare(
  policies: readonly CompiledPolicy[],
  scenario: Scenario,
  files: ReadonlyMap<string, string>,
): Prepared {
  return new Preparation(policies, scenario, files).run();
}

class Preparation {
  readonly #policies: readonly CompiledPolicy[];
  readonly #scenario: Scenario;
  readonly #files: ReadonlyMap<string, string>;
  readonly #report: Report;
  readonly #names: SeriesNames;

  constructor(
    policies: readonly CompiledPolicy[],
    scenario: Scenario,
    files: ReadonlyMap<string, string>,
  ) {
    this.#policies = policies;
    this.#scenario = scenario;
    this.#report = new Report(scenario.source);
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

  run(): Prepared {
    const { expectations, plot } = this.#scenario;
    const queries = this.#policies.flatMap(({ circuit }) =>
      circuit === undefined ? [] : policyQueriesOf(circuit),
    );
    const scripts = this.#scripts(queries);
    const open = queries.filter(({ policy, component }) => !scripts.get(policy)?.has(component));
    this.#checkAnswerable(open);
    this.#checkSize();
    this.#checkChanges();
    for (const expectation of expectations) this.#checkExpectation(expectation);
    for (const name of plot.flatMap(({ series }) => series)) this.#checkName(name, name.value);
    return {
      findings: this.#report.findings,
      names: this.#names,
      scripts,
      queries: open.map(({ query }) => query),
    };
  }

  #scripts(queries: readonly PolicyQuery[]): Map<string, Map<string, Scripted>> {
    const scripts = new Map<string, Map<string, Scripted>>();
    for (const placed of this.#scenario.scripts) {
      const answers = this.#scripted(placed);
      const meant = queries.filter((query) => scriptAnswers(placed.value, query));
      if (meant.length === 0) this.#reportUnasked(placed, queries);
      for (const { policy, component } of meant) {
        const own = scripts.get(policy) ?? new Map<string, Scripted>();
        if (own.has(component)) {
          this.#refuse(placed, "one series for each query", `another for ${policy} ${component}`);
        }
        if (answers !== undefined) scripts.set(policy, own.set(component, answers));
      }
    }
    return scripts;
  }

  #scripted({ value, at, path }: Located<Script>): Scripted | undefined {
    try {
      return scripted(value, this.#files);
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      const file = value.source.kind === "recording" ? value.source.of.file : "";
      const [wanted = message, got = "another"] = message.replace(/^wanted /, "").split(", got ");
      this.#report.refuse(at, [...path, "recording"], `${file}: ${wanted}`, got);
      return undefined;
    }
  }

  #reportUnasked(placed: Located<Script>, queries: readonly PolicyQuery[]): void {
    const { query, component, policy } = placed.value;
    this.#checkPolicy(placed, policy);
    const asked =
      component !== undefined
        ? queries.map((query) => query.component)
        : queries.map((query) => quote(query.query));
    const wanted =
      asked.length === 0
        ? "a policy that asks queries"
        : `one out of ${[...new Set(asked)].join(", ")}`;
    this.#refuse(placed, wanted, component ?? quote(query ?? ""));
  }

  /** Queries without a script must be supported by the local evaluator. */
  #checkAnswerable(open: readonly PolicyQuery[]): void {
    for (const { policy, component, query } of open) {
      for (const fault of validateQuery(query, "own")) {
        const wanted = `a series for the query of ${policy} ${component}, which cannot be answered here: ${fault}`;
        this.#report.refuse(START, ["series"], wanted, "none");
      }
    }
  }

  #checkSize(): void {
    const plans = this.#policies.flatMap(({ circuit }) => circuit ?? []);
    const over = oversized(plans, this.#scenario.durationMs);
    if (over === undefined) return;
    this.#report.refuse(START, ["duration"], over.wanted, over.got);
  }

  #checkChanges(): void {
    for (const placed of this.#scenario.changes) {
      const { at, policy } = placed.value;
      this.#checkPolicy(placed, policy);
      this.#checkTime(placed, "at", at);
      const meant = this.#policies.filter(({ name }) => policy === undefined || name === policy);
      if (meant.length > 0) refuseUnreadKeys(placed, meant, this.#report);
    }
  }

  #checkExpectation(placed: Located<Expectation>): void {
    const { phase, from, until, measure } = placed.value;
    const { phases, services } = this.#scenario;
    const names = phases.map(({ name }) => name);
    if (phase !== undefined && !names.includes(phase)) this.#unknown(placed, "phase", phase, names);
    if (from !== undefined) this.#checkTime(placed, "from", from);
    if (until !== undefined && until > this.#scenario.durationMs) {
      this.#refuse(
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
      } else if (classesOf(measure.which, services).size === 0) {
        const got = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
        this.#refuse(placed, "labels of a request class", got.join(" ") || "no service");
      }
    } else if (measure.kind !== "alerts") this.#checkName(placed, measure.name);
  }

  /** Reports a name that is not that of exactly one signal or model series. */
  #checkName(placed: Located<unknown>, name: string): void {
    const found = this.#names.get(name) ?? [];
    if (found.length > 1) {
      this.#refuse(placed, `one signal: ${found.join(" or ")}`, quote(name));
      return;
    }
    if (found.length === 1) return;
    const known = [...this.#names.keys()];
    if (this.#policies.length === 0 && nearest(name, known) === undefined) {
      const wanted = "a series of a service, or a policy that has such a signal: this run has none";
      this.#refuse(placed, wanted, quote(name));
    } else this.#unknown(placed, "signal or model series", name, known);
  }

  #checkPolicy(placed: Located<unknown>, name: string | undefined): void {
    const names = this.#policies.map((policy) => policy.name);
    if (name !== undefined && !names.includes(name)) this.#unknown(placed, "policy", name, names);
  }

  #checkTime(placed: Located<unknown>, key: string, at: number): void {
    const { durationMs } = this.#scenario;
    if (at >= durationMs)
      this.#refuse(placed, `${key} before the end, ${durationMs} ms`, `${at} ms`);
  }

  #unknown(placed: Located<unknown>, what: string, got: string, known: readonly string[]): void {
    const near = nearest(got, known);
    const short = known.filter((name) => !name.includes("/"));
    const hint = near === undefined ? `: ${short.join(", ")}` : `; did you mean ${near}?`;
    this.#refuse(placed, `a ${what}${hint}`, quote(got));
  }

  #refuse({ at, path }: Located<unknown>, wanted: string, got: string): void {
    this.#report.refuse(at, path, wanted, got);
  }
}
