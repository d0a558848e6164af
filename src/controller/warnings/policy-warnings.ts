// Collects the warnings about the policies in force: problems in their documents, undefined names, control points that no check
// names, signals that never had a value, limiters that fail open. One list feeds the log, the status of each policy and a
// metric.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { listed } from "#base/text/listed.ts";
import type { ScaledObject } from "#policy/compiled.ts";
import type { Target } from "#policy/document/targets.ts";
import type { PolicyWarning } from "#policy/document/warning.ts";
import { runningWarningLine } from "#policy/format.ts";
import { type NeedWarning, needChecker } from "#policy/unmet-needs.ts";
import { Slices } from "#runtime/life/slices.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import type { PolicyLoop } from "../loop/policy-loop.ts";
import { POLICY_ORIGINS } from "../policy-source.ts";
import { type CheckCount, ControlPointWatch, LabelWatch, type LimiterCount } from "./usage.ts";

interface PolicyWarningsOptions {
  readonly loops: () => ReadonlyMap<string, PolicyLoop>;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
  /** True if a metric exists; undefined if queries go to a Prometheus server, which may have any metric. */
  readonly knowsMetric: ((name: string) => boolean) | undefined;
  /** The agent groups that have agents; undefined if unknown. */
  readonly agentGroups: readonly string[] | undefined;
  /** Checks so far by agent group and control point; undefined if no agent runs in this process. */
  readonly checks: (() => Iterable<CheckCount>) | undefined;
  /** Warnings about a Kubernetes object that a policy scales. */
  readonly scaling: (object: ScaledObject) => readonly Omit<PolicyWarning, "path">[];
  /** Warnings about a gateway or a route that a policy attaches to. */
  readonly attaching: (target: Target) => readonly Omit<PolicyWarning, "path">[];
  /** The number of flows that each limiter has judged; empty if no agent runs in this process. */
  readonly limiters: () => readonly LimiterCount[];
}

/** Milliseconds between two examinations. */
const EXAMINE_MS = 30_000;

/** The most lines that one examination logs. */
const MAX_LINES = 20;

const NONE: readonly PolicyWarning[] = [];

export class PolicyWarnings implements MetricSource {
  readonly #options: PolicyWarningsOptions;
  readonly #watch: ControlPointWatch | undefined;
  readonly #labels: LabelWatch;
  /** By policy name, as of the last examination. */
  #unmet: ReadonlyMap<string, readonly PolicyWarning[]> = new Map();
  /** Lines (without reasons) of warnings that were logged and still hold. */
  #logged: ReadonlySet<string> = new Set();
  #disarm: () => void;
  /** True while policies are examined. */
  #examining = false;
  /** True if something has changed since the examination began, so that another one must follow. */
  #again = false;
  #closed = false;

  constructor(options: PolicyWarningsOptions) {
    this.#options = options;
    const { clock, checks } = options;
    this.#watch = checks && new ControlPointWatch(clock, checks);
    this.#labels = new LabelWatch(options.limiters);
    this.#disarm = clock.alarm(EXAMINE_MS, this.#examineAgain);
  }

  close(): void {
    this.#closed = true;
    this.#disarm();
  }

  /** All warnings about a policy that hold now. */
  of(name: string): readonly PolicyWarning[] {
    const loop = this.#options.loops().get(name);
    return loop === undefined ? NONE : [...loop.version.policy.warnings, ...this.#running(loop)];
  }

  /**
   * Examines the policies, in slices, because there may be thousands. Call it whenever the policies in force change. Resolves
   * after an examination that saw the change; a failure is logged.
   */
  async examine(): Promise<void> {
    this.#again = true;
    if (this.#examining) return;
    this.#examining = true;
    try {
      while (this.#again && !this.#closed) {
        this.#again = false;
        await this.#examineOnce();
      }
    } catch (thrown) {
      // The known warnings stay, and the next examination may succeed.
      const why = Fault.from(thrown).message;
      this.#options.log.warn({ error: thrown }, `policies were not examined for warnings: ${why}`);
    } finally {
      this.#examining = false;
    }
  }

  async #examineOnce(): Promise<void> {
    const { loops: current, clock, knowsMetric, agentGroups, scaling, attaching } = this.#options;
    const slices = new Slices(clock);
    await slices.end();
    const loops = [...current().values()];
    const policies = loops.map(({ version }) => version.policy);
    const watch = this.#watch;
    watch?.observe(policies);
    await slices.end();
    this.#labels.observe(policies);
    await slices.end();
    const labels = this.#labels.seen;
    const isUnused = watch && ((group: string, point: string) => watch.isUnused(group, point));
    const known = { knowsMetric, labels, agentGroups, isUnused, scaling, attaching };
    const warningsOf = needChecker(policies, known);
    const unmet = new Map<string, readonly NeedWarning[]>();
    for (const { name, needs } of policies) {
      const warnings: NeedWarning[] = [];
      for (const need of needs) {
        warnings.push(...warningsOf(need));
        await slices.pause();
      }
      if (warnings.length > 0) unmet.set(name, warnings);
    }
    this.#unmet = unmet;
    await this.#report(loops, slices);
  }

  collect(to: MetricSink): void {
    if (!to.wants("sluice_policy_warnings")) return;
    for (const name of this.#options.loops().keys()) {
      const counts = new Map<string, number>();
      for (const { code } of this.of(name)) counts.set(code, (counts.get(code) ?? 0) + 1);
      for (const [code, count] of counts) to.number("sluice_policy_warnings", [name, code], count);
    }
  }

  readonly #examineAgain = (): void => {
    void this.examine();
    this.#disarm = this.#options.clock.alarm(EXAMINE_MS, this.#examineAgain);
  };

  /** The warnings that the document alone does not reveal. */
  #running({ version, diagnosis }: PolicyLoop): readonly PolicyWarning[] {
    const unmet = this.#unmet.get(version.policy.name) ?? NONE;
    return [...unmet, ...diagnosis.warnings()];
  }

  /** Logs the beginning and the end of each warning, in one line for all policies that share it. */
  async #report(loops: readonly PolicyLoop[], slices: Slices): Promise<void> {
    const shared = new Map<string, { readonly line: string; readonly names: Set<string> }>();
    for (const loop of loops) {
      for (const { why, ...warning } of this.#toLog(loop)) {
        const key = runningWarningLine(warning);
        const line = why === undefined ? key : runningWarningLine({ ...warning, why });
        const own = shared.get(key) ?? { line, names: new Set() };
        shared.set(key, own);
        own.names.add(loop.version.policy.name);
      }
      await slices.pause();
    }
    if (this.#closed) return;
    const { log } = this.#options;
    const begun = [...shared].filter(([key]) => !this.#logged.has(key));
    const ended = [...this.#logged].filter((key) => !shared.has(key));
    for (const [, { line, names }] of begun.slice(0, MAX_LINES)) {
      const which = names.size === 1 ? "policy" : "policies";
      log.warn({ policies: names.size }, `${which} ${listed([...names], (name) => name)}: ${line}`);
    }
    for (const key of ended.slice(0, MAX_LINES)) log.info({}, `resolved: ${key}`);
    const more = begun.length - MAX_LINES;
    if (more > 0) log.warn({}, `${more} more warnings are in the status of the policies`);
    const over = ended.length - MAX_LINES;
    if (over > 0) log.info({}, `resolved: ${over} more`);
    this.#logged = new Set(shared.keys());
  }

  /** Omits warnings that are logged elsewhere: those of files, with their places, and those of running circuits. */
  #toLog(loop: PolicyLoop): readonly PolicyWarning[] {
    const { policy, origin } = loop.version;
    const own = POLICY_ORIGINS[origin].logsWarnings ? NONE : policy.warnings;
    return [...own, ...this.#running(loop)].filter(({ code }) => !LOGGED_BY_LOOP.has(code));
  }
}

const LOGGED_BY_LOOP: ReadonlySet<string> = new Set(["fails_open", "failed_component"]);
