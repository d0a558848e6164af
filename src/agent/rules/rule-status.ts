// Follows the rules in the store, and shows operators their state: readiness, log and metrics.

import type { Fault } from "#base/fault.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { Rulebook } from "#flow/rulebook.ts";
import type { MetricSink, MetricSource } from "#telemetry/metrics/table.ts";
import { follow, type RejectedRule, type RuleFaults } from "./follow.ts";
import { RuleSnapshot } from "./rule-snapshot.ts";

/**
 * Resolves when the first rules are in force, which may be those of the snapshot at `snapshotPath`. `planChanged` is called
 * synchronously, with the rejected rules, when another plan comes into force or other rules are rejected. New numbers alone
 * change no plan.
 */
export function followRules(
  process: SluiceProcess,
  { etcd, agent_info: { agent_group: group } }: AgentConfig,
  book: Rulebook,
  snapshotPath: string,
  planChanged: (rejected: RuleFaults["rejected"]) => void,
): Promise<void> {
  const { store, metrics, scope, clock, fail } = process;
  const log = process.log.child("rules");
  const stop = new AbortController();
  const status = new RuleStatus(process, book);
  metrics.add(status);
  const snapshot =
    snapshotPath === ""
      ? undefined
      : new RuleSnapshot({
          path: snapshotPath,
          owner: { group, namespace: etcd.namespace },
          clock,
          log,
          inUse: (savedAt) => status.showSnapshot(snapshotPath, savedAt),
        });
  if (snapshot !== undefined) metrics.add(snapshot);
  let plan: Rulebook["plan"] | undefined;
  let rejectedBefore = 0;
  const { ready, ended } = follow({
    snapshot,
    store,
    group,
    book,
    clock,
    log,
    signal: stop.signal,
    kept: (keys) => status.showKept(keys),
    applied(revision, faults) {
      const { rejected, added } = faults;
      const isOther =
        rejected.size !== rejectedBefore || [...rejected.keys()].some((key) => added.has(key));
      if (book.plan !== plan || isOther) planChanged(rejected);
      plan = book.plan;
      rejectedBefore = rejected.size;
      status.showBatch(revision, faults);
    },
  });
  scope.add("rules", async () => {
    stop.abort();
    await ended;
    await snapshot?.close();
  });
  ended.then(
    () => stop.signal.aborted || fail("the store ended its watch"),
    (thrown: Fault) => fail("following the store failed", thrown),
  );
  return ready;
}

/**
 * An agent that starts without a rule because it cannot read it is not ready, because it would let pass what the rule
 * refuses. Once an agent is ready, a rejected rule leaves all others in force and the agent ready: otherwise all agents
 * would lose their traffic at the same time.
 */
class RuleStatus implements MetricSource {
  readonly #log: ReturnType<SluiceProcess["log"]["child"]>;
  readonly #health: SluiceProcess["health"];
  readonly #status: ReturnType<SluiceProcess["health"]["dependency"]>;
  readonly #book: Rulebook;
  #rejected: readonly (readonly [string, RejectedRule])[] = [];
  #keptKeys = 0;
  #snapshotText: string | undefined;
  #inForce = "";
  #hasBeenReady = false;

  constructor({ log, health }: Pick<SluiceProcess, "log" | "health">, book: Rulebook) {
    this.#log = log.child("rules");
    this.#health = health;
    this.#status = health.dependency("rules");
    this.#book = book;
  }

  collect(to: MetricSink): void {
    const missing = this.#missing;
    to.number("sluice_rules_refused", ["predecessor"], this.#rejected.length - missing);
    to.number("sluice_rules_refused", ["none"], missing);
    to.number("sluice_rules_kept", [], this.#keptKeys);
  }

  /** The agent judges by a snapshot, or no longer. */
  showSnapshot(path: string, savedAt: number | undefined): void {
    if (savedAt === undefined) {
      this.#snapshotText = undefined;
      this.#show();
    } else {
      this.#snapshotText = `judging by the rules of ${new Date(savedAt).toISOString()} in ${path}`;
      this.#health.doWithout("store");
    }
  }

  showKept(keys: number): void {
    this.#keptKeys = keys;
    this.#show();
    if (keys === 0) {
      const text = "a controller has written again: the rules are those of the store";
      this.#log.info({}, text);
    } else {
      const why = "the store lost rules that no controller is known to have removed";
      this.#log.warn({ keys }, `${why}: they stay in force until a controller has written again`);
    }
  }

  showBatch(revision: number, { rejected, partial, added }: RuleFaults): void {
    this.#rejected = [...rejected];
    this.#hasBeenReady ||= this.#missing === 0;
    this.#inForce = `${this.#book.rules.size} rules in force at revision ${revision}`;
    this.#show();
    const unready = this.#hasBeenReady ? "" : ", and the agent is not ready";
    for (const [key, { hasPredecessor, message }] of rejected) {
      if (!added.has(key)) continue;
      const instead = hasPredecessor
        ? "its predecessor stays"
        : `nothing is in force in its place${unready}`;
      this.#log.error({ revision }, `rule refused, ${instead}: ${key}: ${message}`);
    }
    for (const [key, part] of partial) {
      if (!added.has(key)) continue;
      const text = `in force except for a part that this version does not run: ${key}: ${part}`;
      this.#log.warn({ revision }, text);
    }
  }

  /** Number of rejected rules in whose place nothing is in force. */
  get #missing(): number {
    return this.#rejected.filter(([, { hasPredecessor }]) => !hasPredecessor).length;
  }

  #show(): void {
    if (this.#hasBeenReady) this.#status.ok(this.#inForce);
    const faults: string[] = [];
    if (this.#snapshotText !== undefined) faults.push(this.#snapshotText);
    if (this.#keptKeys > 0)
      faults.push(`the store lost ${this.#keptKeys} keys, which stay in force`);
    if (this.#rejected.length > 0) {
      const texts = this.#rejected.map(
        ([key, { message, hasPredecessor }]) =>
          `${key}${hasPredecessor ? "" : " (nothing in its place)"}: ${message}`,
      );
      faults.push(`rules refused: ${texts.join("; ")}`);
    }
    if (faults.length > 0) this.#status.degraded(faults.join("; "));
  }
}
