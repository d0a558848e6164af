// Runs the queries of circuits: each for itself, tried again while it is of use, given up when its next one
// is due. Nothing here ever makes a tick wait, and no policy's queries hold up those of another for long.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Answer, Ask } from "#circuit/component.ts";
import { type Measure, numberOf, numbersBy, type Result } from "#promql/result.ts";
import { mayPass } from "./reply.ts";

/** JobGroupConfig of `policies.promql_jobs_scheduler`. */
export interface AskerSettings {
  /** One query at a time. */
  readonly blocking_execution: boolean;
  /** Most queries at a time, 0 for no limit. Ignored with `blocking_execution`. */
  readonly worker_limit: number;
}

/** How a question ended: with an answer, without, or not before its next one was due. */
type Ending = "answered" | "failed" | "late";

/** Hears how questions go. Durations are ms. */
export interface AskMeter {
  ended(owner: string, ending: Ending, sinceAsked: number): void;
  /** One attempt is over, whatever came of it. */
  tried(took: number): void;
  /** An attempt failed and another one follows. */
  retried(owner: string): void;
}

interface AskerOptions {
  readonly measure: Measure;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly settings: AskerSettings;
  readonly meter?: AskMeter;
}

/** What hears the answer: never in the turn of `ask`, so never within the tick that asked. */
type Hear = (answer: Answer) => void;

/** One component's question. A component has at most one. */
interface Question {
  /** The component, by its policy and its identity. */
  readonly key: string;
  readonly owner: string;
  readonly ask: Ask;
  readonly hear: Hear;
  readonly since: number;
  /** When the component began to wait: before `since` where this took the place of another question. */
  readonly waiting: number;
  readonly errand: Errand;
  /** Takes back the alarm that ends its use. */
  readonly disarm: () => void;
}

/** One query at one time, made once for everybody who asks it. */
interface Errand {
  readonly key: string;
  readonly query: string;
  readonly at: number;
  readonly questions: Set<Question>;
  readonly abort: AbortController;
  /** Whom its place is charged to: one of those who ask. */
  owner: string;
  attempts: number;
  /** Of the last attempt. */
  fault: Fault | undefined;
  /** Takes back the alarm of the next attempt. */
  wake: () => void;
}

const FIRST_REST_MS = 250;
const LONGEST_REST_MS = 10_000;

export class Asker {
  readonly #options: AskerOptions;
  readonly #most: number;
  readonly #questions = new Map<string, Question>();
  readonly #errands = new Map<string, Errand>();
  /** Errands that want a place, by owner; who was served the longest ago comes first. Kept while empty. */
  readonly #queues = new Map<string, Set<Errand>>();
  #queued = 0;
  readonly #running = new Set<Errand>();
  /** On their way to whoever asked. */
  readonly #answers = new Map<Question, Answer>();
  #closed = false;

  constructor(options: AskerOptions) {
    const { blocking_execution: single, worker_limit: limit } = options.settings;
    this.#options = options;
    this.#most = single ? 1 : limit > 0 ? limit : Number.POSITIVE_INFINITY;
  }

  /** Questions that have no answer yet. */
  get waiting(): number {
    return this.#questions.size;
  }

  /**
   * Puts a component's question. `owner` is its policy, `identity` what the component is wherever it stands:
   * a new version of the policy may give its id to another one. The question that it still has ends late, or
   * is taken over silently where it was not due yet.
   */
  ask(owner: string, identity: string, ask: Ask, hear: Hear): void {
    if (this.#closed) return;
    const { clock } = this.#options;
    const now = clock.now();
    const key = `${owner}\n${identity}`;
    const before = this.#questions.get(key);
    const early = before !== undefined && isEarly(before, ask, now);
    const errand = this.#errand(owner, ask);
    const question: Question = {
      ...{ key, owner, ask, hear, errand },
      ...{ since: now, waiting: early ? before.waiting : now },
      disarm: clock.alarm(ask.everyMs, () => this.#late(question)),
    };
    this.#questions.set(key, question);
    errand.questions.add(question);
    if (early) this.#leave(before);
    else if (before !== undefined) this.#late(before);
    // The tick that asks is not the one that pays for the call.
    queueMicrotask(() => this.#work());
  }

  /** Forgets the questions of a policy; nobody hears of them again. */
  drop(owner: string): void {
    for (const question of [...this.#questions.values()]) {
      if (question.owner === owner) this.#leave(question);
    }
    for (const question of [...this.#answers.keys()]) {
      if (question.owner === owner) this.#answers.delete(question);
    }
    // Others may wait for the same.
    const left = [...(this.#queues.get(owner) ?? [])];
    for (const errand of left) this.#unqueue(errand);
    this.#queues.delete(owner);
    for (const errand of left) this.#enqueue(errand);
    this.#work();
  }

  /** Forgets everything. */
  close(): void {
    this.#closed = true;
    for (const question of [...this.#questions.values()]) this.#leave(question);
    this.#answers.clear();
  }

  #errand(owner: string, { query, at }: Ask): Errand {
    const key = `${at}\n${query}`;
    const known = this.#errands.get(key);
    if (known !== undefined) return known;
    const errand: Errand = {
      ...{ key, query, at, owner, attempts: 0, fault: undefined },
      questions: new Set(),
      abort: new AbortController(),
      wake: () => undefined,
    };
    this.#errands.set(key, errand);
    this.#enqueue(errand);
    return errand;
  }

  #enqueue(errand: Errand): void {
    const [first] = errand.questions;
    errand.owner = first?.owner ?? errand.owner;
    const queue = this.#queues.get(errand.owner) ?? new Set();
    this.#queues.set(errand.owner, queue.add(errand));
    this.#queued += 1;
  }

  #unqueue(errand: Errand): void {
    if (this.#queues.get(errand.owner)?.delete(errand) === true) this.#queued -= 1;
  }

  #work(): void {
    while (this.#running.size < this.#most && this.#queued > 0) {
      const next = this.#next();
      if (next === undefined) return;
      const queue = this.#queues.get(next.owner) ?? new Set();
      this.#unqueue(next);
      this.#queues.delete(next.owner);
      this.#queues.set(next.owner, queue);
      void this.#run(next);
    }
  }

  /**
   * The oldest errand of the owner that has the fewest under way, and of those the one served the longest
   * ago: a slow policy waits for itself.
   */
  #next(): Errand | undefined {
    const busy = new Map<string, number>();
    // Where there is room for everybody, turns are nothing to think about.
    if (this.#most !== Number.POSITIVE_INFINITY) {
      for (const { owner } of this.#running) busy.set(owner, (busy.get(owner) ?? 0) + 1);
    }
    let best: Errand | undefined;
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

  async #run(errand: Errand): Promise<void> {
    const { clock, measure, meter } = this.#options;
    const started = clock.now();
    this.#running.add(errand);
    errand.attempts += 1;
    let outcome: Result | Fault;
    try {
      outcome = await measure.query(errand.query, errand.at, errand.abort.signal);
    } catch (thrown) {
      outcome = Fault.from(thrown);
    }
    meter?.tried(clock.now() - started);
    this.#running.delete(errand);
    if (outcome instanceof Fault) this.#failed(errand, outcome);
    else this.#answered(errand, outcome);
    this.#work();
  }

  #answered(errand: Errand, result: Result): void {
    for (const question of [...errand.questions]) {
      this.#end(question, answerOf(question.ask, result));
    }
  }

  /** Rests before the next attempt; a question that will not live to see it fails now. */
  #failed(errand: Errand, fault: Fault): void {
    const { clock, chance, meter } = this.#options;
    const rest = FIRST_REST_MS * 2 ** Math.min(errand.attempts - 1, 10);
    // Half of it by chance: servers that come back are not met by everybody at once.
    const restMs = Math.min(rest, LONGEST_REST_MS) * (0.5 + chance() / 2);
    const again = clock.now() + restMs;
    errand.fault = fault;
    for (const question of [...errand.questions]) {
      if (mayPass(fault) && again < question.since + question.ask.everyMs) {
        meter?.retried(question.owner);
      } else {
        this.#end(question, { kind: "failed", why: fault.message });
      }
    }
    if (errand.questions.size === 0) return;
    errand.wake = clock.alarm(restMs, () => {
      this.#enqueue(errand);
      this.#work();
    });
  }

  #late(question: Question): void {
    const { errand, since } = question;
    const waited = Math.round(this.#options.clock.now() - since);
    const trouble = errand.fault === undefined ? "" : `; last failure: ${errand.fault.message}`;
    const why = `no answer before the next evaluation was due, after ${waited} ms${trouble}`;
    this.#end(question, { kind: "failed", why }, "late");
    this.#work();
  }

  #end(question: Question, answer: Answer, ending: Ending = endingOf(answer)): void {
    const { clock, meter } = this.#options;
    if (!this.#leave(question)) return;
    meter?.ended(question.owner, ending, clock.now() - question.since);
    this.#answers.set(question, answer);
    queueMicrotask(() => {
      if (this.#answers.delete(question)) question.hear(answer);
    });
  }

  /** False where it had left before. An errand that nobody waits for is given up. */
  #leave(question: Question): boolean {
    const { errand, key } = question;
    if (!errand.questions.delete(question)) return false;
    question.disarm();
    if (this.#questions.get(key) === question) this.#questions.delete(key);
    if (errand.questions.size > 0) return true;
    errand.wake();
    this.#unqueue(errand);
    // The place is free at once: what was given up may take its time to notice.
    if (this.#running.delete(errand)) errand.abort.abort();
    this.#errands.delete(errand.key);
    return true;
  }
}

/** Ticks are hardly ever half a period early: this one is the first of a new version. */
function isEarly(
  { ask: { query, at, everyMs }, waiting }: Question,
  ask: Ask,
  now: number,
): boolean {
  return (query === ask.query && at === ask.at) || now - waiting < everyMs / 2;
}

function endingOf({ kind }: Answer): Ending {
  return kind === "failed" ? "failed" : "answered";
}

function answerOf({ byLabel }: Ask, result: Result): Answer {
  if (byLabel === undefined) {
    const value = numberOf(result);
    return typeof value === "number" ? { kind: "value", value } : { kind: "failed", ...value };
  }
  const values = numbersBy(byLabel, result);
  return "why" in values ? { kind: "failed", ...values } : { kind: "by_label", values };
}
