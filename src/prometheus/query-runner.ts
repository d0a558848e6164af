// Runs the queries of circuits. Each query runs independently, is retried while an answer is still useful, and is
// abandoned when the component's next query is due. Ticks never wait, and the queries of one policy cannot hold
// up those of another for long.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { QueryAnswer, QueryRequest } from "#circuit/component.ts";
import { numericResult, type QueryEngine, type Result } from "#promql/result.ts";
import { isTransient } from "./response.ts";

/** JobGroupConfig of `policies.promql_jobs_scheduler`. */
export interface QueryRunnerSettings {
  /** One query at a time. */
  readonly blocking_execution: boolean;
  /** Maximum number of concurrent queries, 0 for no limit. Ignored with `blocking_execution`. */
  readonly worker_limit: number;
}

/** The end of a query. A late one had neither an answer nor a failure when the next was due. */
type QueryOutcome = "answered" | "failed" | "late";

/** Records how queries end. Durations are in ms. */
export interface QueryRunnerMetrics {
  ended(owner: string, outcome: QueryOutcome, sinceAsked: number): void;
  /** One attempt is over, whatever its result. */
  attempted(took: number): void;
  /** An attempt failed and another will follow. */
  retried(owner: string): void;
}

interface QueryRunnerOptions {
  readonly engine: QueryEngine;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly settings: QueryRunnerSettings;
  readonly metrics?: QueryRunnerMetrics;
}

/** Called with the answer after `ask` has returned, and so never within the tick that asked. */
type AnswerHandler = (answer: QueryAnswer) => void;

/** The unanswered query of one component. A component has at most one. */
interface PendingQuery {
  /** Identifies the component: its policy and its identity. */
  readonly key: string;
  readonly owner: string;
  readonly ask: QueryRequest;
  readonly onAnswer: AnswerHandler;
  readonly since: number;
  /** When the component began to wait: before `since` if this query replaced another that was not due yet. */
  readonly waiting: number;
  readonly run: QueryRun;
  /** Cancels the alarm for the time when the next query is due. */
  readonly disarm: () => void;
}

/** The run of one query at one evaluation time. All components with this query share it. */
interface QueryRun {
  readonly key: string;
  readonly query: string;
  readonly at: number;
  readonly pending: Set<PendingQuery>;
  readonly abort: AbortController;
  /** The policy whose share of the slots the run uses: one of those that wait for it. */
  owner: string;
  attempts: number;
  /** Fault of the last attempt. */
  fault: Fault | undefined;
  /** Cancels the alarm of the next attempt. */
  cancelRetry: () => void;
}

const MIN_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 10_000;

export class QueryRunner {
  readonly #options: QueryRunnerOptions;
  readonly #maxConcurrent: number;
  readonly #pending = new Map<string, PendingQuery>();
  readonly #runs = new Map<string, QueryRun>();
  /**
   * Runs that wait to start, by policy; the policy served least recently comes first. Where the number of concurrent
   * queries is limited, empty queues are kept for this order.
   */
  readonly #queues = new Map<string, Set<QueryRun>>();
  #queued = 0;
  readonly #running = new Set<QueryRun>();
  /** Answers that are about to be delivered. */
  readonly #answers = new Map<PendingQuery, QueryAnswer>();
  #closed = false;

  constructor(options: QueryRunnerOptions) {
    const { blocking_execution: single, worker_limit: limit } = options.settings;
    this.#options = options;
    this.#maxConcurrent = single ? 1 : limit > 0 ? limit : Number.POSITIVE_INFINITY;
  }

  get #isLimited(): boolean {
    return this.#maxConcurrent !== Number.POSITIVE_INFINITY;
  }

  /** Number of queries without an answer. */
  get waiting(): number {
    return this.#pending.size;
  }

  /**
   * Starts a component's query. `owner` is its policy. `identity` identifies the component; its id does not, as
   * a new version of the policy may give that to another component. A query of the same component that is still
   * pending ends as late, or is replaced silently if this one comes early.
   */
  ask(owner: string, identity: string, ask: QueryRequest, onAnswer: AnswerHandler): void {
    if (this.#closed) return;
    const { clock } = this.#options;
    const now = clock.now();
    const key = `${owner}\n${identity}`;
    const before = this.#pending.get(key);
    const early = before !== undefined && isEarly(before, ask, now);
    const run = this.#runOf(owner, ask);
    const pending: PendingQuery = {
      key,
      owner,
      ask,
      onAnswer,
      run,
      since: now,
      waiting: early ? before.waiting : now,
      disarm: clock.alarm(ask.periodMs, () => this.#late(pending)),
    };
    this.#pending.set(key, pending);
    run.pending.add(pending);
    if (early) this.#detach(before);
    else if (before !== undefined) this.#late(before);
    // Deferred, so that the call does not delay the tick.
    queueMicrotask(() => this.#startRuns());
  }

  /** Drops the queries of a policy without answering them. */
  drop(owner: string): void {
    for (const pending of [...this.#pending.values()]) {
      if (pending.owner === owner) this.#detach(pending);
    }
    for (const pending of [...this.#answers.keys()]) {
      if (pending.owner === owner) this.#answers.delete(pending);
    }
    // Other policies may wait for the same runs.
    const left = [...(this.#queues.get(owner) ?? [])];
    for (const run of left) this.#unqueue(run);
    this.#queues.delete(owner);
    for (const run of left) this.#enqueue(run);
    this.#startRuns();
  }

  /** Drops all queries without answering them. */
  close(): void {
    this.#closed = true;
    for (const pending of [...this.#pending.values()]) this.#detach(pending);
    this.#answers.clear();
  }

  #runOf(owner: string, { query, at }: QueryRequest): QueryRun {
    const key = `${at}\n${query}`;
    const known = this.#runs.get(key);
    if (known !== undefined) return known;
    const run: QueryRun = {
      key,
      query,
      at,
      owner,
      attempts: 0,
      fault: undefined,
      pending: new Set(),
      abort: new AbortController(),
      cancelRetry: () => undefined,
    };
    this.#runs.set(key, run);
    this.#enqueue(run);
    return run;
  }

  #enqueue(run: QueryRun): void {
    const [first] = run.pending;
    run.owner = first?.owner ?? run.owner;
    const queue = this.#queues.get(run.owner) ?? new Set();
    this.#queues.set(run.owner, queue.add(run));
    this.#queued += 1;
  }

  #unqueue(run: QueryRun): void {
    if (this.#queues.get(run.owner)?.delete(run) === true) this.#queued -= 1;
  }

  #startRuns(): void {
    while (this.#running.size < this.#maxConcurrent && this.#queued > 0) {
      const next = this.#next();
      if (next === undefined) return;
      const queue = this.#queues.get(next.owner) ?? new Set();
      this.#unqueue(next);
      this.#queues.delete(next.owner);
      if (queue.size > 0 || this.#isLimited) this.#queues.set(next.owner, queue);
      void this.#run(next);
    }
  }

  /**
   * The oldest run of the policy with the fewest runs in progress; among equals, of the one served least
   * recently. So a policy with slow queries delays only itself.
   */
  #next(): QueryRun | undefined {
    const busy = new Map<string, number>();
    // Without a limit there is no competition.
    if (this.#isLimited) {
      for (const { owner } of this.#running) busy.set(owner, (busy.get(owner) ?? 0) + 1);
    }
    let best: QueryRun | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [owner, [oldest]] of this.#queues) {
      const under = busy.get(owner) ?? 0;
      if (oldest === undefined || under >= fewest) continue;
      best = oldest;
      fewest = under;
      if (fewest === 0) break;
    }
    return best;
  }

  async #run(run: QueryRun): Promise<void> {
    const { clock, engine, metrics } = this.#options;
    const started = clock.now();
    this.#running.add(run);
    run.attempts += 1;
    let result: Result | Fault;
    try {
      result = await engine.query(run.query, run.at, run.abort.signal);
    } catch (thrown) {
      result = Fault.from(thrown);
    }
    metrics?.attempted(clock.now() - started);
    this.#running.delete(run);
    if (result instanceof Fault) this.#failed(run, result);
    else this.#answered(run, result);
    this.#startRuns();
  }

  #answered(run: QueryRun, result: Result): void {
    for (const pending of [...run.pending]) {
      this.#end(pending, numericResult(result, pending.ask.byLabel));
    }
  }

  /** Schedules the next attempt. Queries that would be late by then fail now. */
  #failed(run: QueryRun, fault: Fault): void {
    const { clock, chance, metrics } = this.#options;
    const backoff = MIN_BACKOFF_MS * 2 ** Math.min(run.attempts - 1, 10);
    // Half of it is random, so that not all clients return to a recovering server at once.
    const delayMs = Math.min(backoff, MAX_BACKOFF_MS) * (0.5 + chance() / 2);
    const retryAt = clock.now() + delayMs;
    run.fault = fault;
    for (const pending of [...run.pending]) {
      if (isTransient(fault) && retryAt < pending.since + pending.ask.periodMs) {
        metrics?.retried(pending.owner);
      } else {
        this.#end(pending, { kind: "failed", why: fault.message });
      }
    }
    if (run.pending.size === 0) return;
    run.cancelRetry = clock.alarm(delayMs, () => {
      this.#enqueue(run);
      this.#startRuns();
    });
  }

  #late(pending: PendingQuery): void {
    const { run, since } = pending;
    const waited = Math.round(this.#options.clock.now() - since);
    const lastFailure = run.fault === undefined ? "" : `; last failure: ${run.fault.message}`;
    const why = `no answer before the next evaluation was due, after ${waited} ms${lastFailure}`;
    this.#end(pending, { kind: "failed", why }, "late");
    this.#startRuns();
  }

  #end(
    pending: PendingQuery,
    answer: QueryAnswer,
    outcome: QueryOutcome = outcomeOf(answer),
  ): void {
    const { clock, metrics } = this.#options;
    if (!this.#detach(pending)) return;
    metrics?.ended(pending.owner, outcome, clock.now() - pending.since);
    this.#answers.set(pending, answer);
    queueMicrotask(() => {
      if (this.#answers.delete(pending)) pending.onAnswer(answer);
    });
  }

  /** Detaches a query from its run; false if it was detached before. A run without queries is abandoned. */
  #detach(pending: PendingQuery): boolean {
    const { run, key } = pending;
    if (!run.pending.delete(pending)) return false;
    pending.disarm();
    if (this.#pending.get(key) === pending) this.#pending.delete(key);
    if (run.pending.size > 0) return true;
    run.cancelRetry();
    this.#unqueue(run);
    // The slot is free at once, even if the aborted call takes time to end.
    if (this.#running.delete(run)) run.abort.abort();
    this.#runs.delete(run.key);
    return true;
  }
}

/** True for the first query of a new version of a policy: regular ones are never half a period early. */
function isEarly(
  { ask: { query, at, periodMs }, waiting }: PendingQuery,
  ask: QueryRequest,
  now: number,
): boolean {
  return (query === ask.query && at === ask.at) || now - waiting < periodMs / 2;
}

function outcomeOf({ kind }: QueryAnswer): QueryOutcome {
  return kind === "failed" ? "failed" : "answered";
}
