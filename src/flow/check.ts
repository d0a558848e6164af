// The path of one check, top to bottom: who is it, what is it, which policies speak; may it pass, and what
// do we take for it; settle, and tell telemetry. Read `run` and `ask` first; the order is the table STAGES.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { type ClassifierInfo, readingOf } from "./classify.ts";
import {
  type Decision,
  type Flow,
  type LimiterKind,
  Pending,
  RejectReason,
  type Verdict,
} from "./flow.ts";
import { Labels } from "./label.ts";
import type { Limiter } from "./limit.ts";
import type { Observer } from "./observe.ts";
import type { Lane, Plan } from "./plan.ts";
import { applies, type Candidate } from "./select.ts";
import { unanswered, Waits } from "./waits.ts";

export interface Stage {
  readonly name: string;
  readonly limiters: readonly LimiterKind[];
  readonly reason: RejectReason;
  /** HTTP status of a refusal whose component names none. */
  readonly deniedStatus: number;
  /** Flows in ramp mode are refused where no limiter of this stage speaks. */
  readonly rampModeNeedsOne?: true;
}

/** The order in which limiters are asked. Changing it is changing a row. */
export const STAGES: readonly Stage[] = [
  {
    name: "ramp",
    limiters: ["ramp_sampler"],
    reason: RejectReason.noMatchingRamp,
    deniedStatus: 403,
    rampModeNeedsOne: true,
  },
  { name: "sample", limiters: ["sampler"], reason: RejectReason.notSampled, deniedStatus: 403 },
  {
    name: "rate · concurrency",
    limiters: ["rate_limiter", "concurrency_limiter"],
    reason: RejectReason.rateLimited,
    deniedStatus: 429,
  },
];

/** Kept back from the caller's deadline, ms, so that the answer still arrives in time. */
const BUDGET_MARGIN_MS = 10;

/** Longest wait of a caller that named no deadline, ms: nobody holds a request open for longer. */
const LONGEST_WAIT_MS = 10_000;

/** What the mind may use of the world. */
export interface World {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
}

/** Judges one flow by one plan. Returns the verdict itself unless a limiter has to wait. */
export function judge(plan: Plan, flow: Flow, world: World): Verdict | Pending<Verdict> {
  return new Judgement(plan, flow, world).run();
}

const NO_DECISIONS: Decision[] = [];
const NO_CLASSIFIERS: readonly ClassifierInfo[] = [];
const NO_METERS: readonly string[] = [];
const NO_LIMITERS: readonly Candidate<Limiter>[] = [];

/** One check in progress. It pins its plan, may stop at a stage that waits, settles once, and is its verdict then. */
class Judgement implements Verdict {
  accepted = false;
  reason: RejectReason = RejectReason.none;
  deniedStatus = 0;
  waitMs = 0;
  decisions = NO_DECISIONS;
  classifiers = NO_CLASSIFIERS;
  fluxMeters = NO_METERS;
  readonly labels: Labels;
  readonly start: number;
  end = 0;
  readonly #flow: Flow;
  readonly #world: World;
  readonly #lane: Lane;
  #stage = 0;
  /** Where the decisions of this stage begin. */
  #from = 0;
  /** Those of this stage that have to wait; most checks have none. */
  #waits: Waits | undefined;
  /** The answer that was promised once a stage had to wait. */
  #later: Pending<Verdict> | undefined;
  #gone = false;

  constructor(plan: Plan, flow: Flow, world: World) {
    const point = plan.point(flow.controlPoint);
    this.#flow = flow;
    this.#world = world;
    this.start = world.clock.wall();
    this.#lane = point.lane(flow.services);
    this.labels = new Labels(point.keys, flow.labels);
  }

  run(): Verdict | Pending<Verdict> {
    try {
      if (this.#lane.classifiers.length > 0) this.#classify();
      if (this.#lane.meters.length > 0) this.fluxMeters = matching(this.#lane.meters, this.labels);
      return this.#ask();
    } catch (thrown) {
      this.#break();
      throw thrown;
    }
  }

  /** Runs the classifiers that match the labels as they arrived: none sees what another made. */
  #classify(): void {
    const { http } = this.#flow;
    if (http === undefined) return;
    const reading = readingOf(http);
    this.classifiers = matching(this.#lane.classifiers, this.labels).map((classifier) =>
      classifier.run(reading, this.labels),
    );
  }

  /** Asks stage after stage until one refuses, one has to wait, or all have granted. */
  #ask(): Verdict | Pending<Verdict> {
    while (this.#stage < STAGES.length) {
      this.#from = this.decisions.length;
      this.#take(this.#lane.limiters[this.#stage] ?? NO_LIMITERS);
      if (this.#waits !== undefined) return this.#wait(this.#waits);
      const refusal = this.#judgeStage();
      if (refusal !== undefined) return refusal;
    }
    return this.#settle(true, RejectReason.none, 0, 0);
  }

  /** Takes from every limiter of a stage that matches, also after one refused: the reply names them all. */
  #take(limiters: readonly Candidate<Limiter>[]): void {
    for (let at = 0; at < limiters.length; at++) {
      const candidate = limiters[at];
      if (candidate === undefined || !applies(candidate, this.labels)) continue;
      const limiter = candidate.item;
      const taken = limiter.take(this.#flow, this.labels);
      if (taken instanceof Pending) {
        this.#waits ??= new Waits();
        this.#waits.add(this.decisions.length, limiter, taken);
        this.#note(unanswered(limiter));
      } else this.#note(this.#resolve(taken));
    }
  }

  #note(decision: Decision): void {
    // A list that begins with its first member takes a tenth of the room of one that grows.
    if (this.decisions.length === 0) this.decisions = [decision];
    else this.decisions.push(decision);
  }

  /** Stops until all of the stage have answered, or the budget ends and local state must answer. */
  #wait(waits: Waits): Pending<Verdict> {
    const later = this.#later ?? new Pending<Verdict>(() => this.#leave());
    this.#later = later;
    const stopAlarm = this.#world.clock.alarm(this.#budget(), () => {
      this.#world.observer.odd("late");
      waits.end();
    });
    waits.begin({
      answered: (place, decision) => {
        this.decisions[place] = this.#resolve(decision);
      },
      over: () => {
        stopAlarm();
        this.#waits = undefined;
        this.#resume(later);
      },
      broke: (thrown) => {
        stopAlarm();
        this.#break();
        later.fail(thrown);
      },
    });
    return later;
  }

  #resume(later: Pending<Verdict>): void {
    try {
      const next = this.#judgeStage() ?? this.#ask();
      if (!(next instanceof Pending)) later.settle(next);
    } catch (thrown) {
      this.#break();
      later.fail(thrown);
    }
  }

  /** The caller went away: whatever the waiting limiters still answer, nothing stays taken. */
  #leave(): void {
    this.#gone = true;
    this.#waits?.end();
  }

  /** Something threw: there is no verdict, and nothing stays taken. */
  #break(): void {
    this.#waits?.abandon();
    this.#giveBack();
  }

  #budget(): number {
    const left = this.#flow.deadline - BUDGET_MARGIN_MS - this.#world.clock.now();
    return Math.max(0, Math.min(left, LONGEST_WAIT_MS));
  }

  /** The verdict if this stage refuses; otherwise moves on to the next stage. */
  #judgeStage(): Verdict | undefined {
    const stage = STAGES[this.#stage];
    if (stage === undefined) return undefined;
    const { decisions } = this;
    const from = this.#from;
    if (stage.rampModeNeedsOne && this.#flow.rampMode && decisions.length === from) {
      return this.#settle(false, RejectReason.noMatchingRamp, 0, 0);
    }
    this.#stage += 1;
    let first: Decision | undefined;
    let waitMs = 0;
    for (let at = from; at < decisions.length; at++) {
      const decision = decisions[at];
      if (!decision?.dropped) continue;
      first ??= decision;
      waitMs = Math.max(waitMs, decision.waitMs);
    }
    if (first === undefined) {
      return this.#gone ? this.#settle(false, stage.reason, stage.deniedStatus, 0) : undefined;
    }
    return this.#settle(
      false,
      stage.reason,
      first.component.deniedStatus || stage.deniedStatus,
      waitMs,
    );
  }

  /**
   * An undecided take is not a grant: the failure mode of its policy answers, by name. A limiter that could
   * answer from local state has named it already; here only `open` lets the flow pass.
   */
  #resolve(decision: Decision): Decision {
    if (decision.outcome !== "undecided" || decision.failure !== undefined) return decision;
    this.#world.observer.odd("undecided");
    const { onFailure } = decision.component;
    return { ...decision, dropped: onFailure !== "open", failure: onFailure };
  }

  /** All or none: a refusal gives back everything that any stage took, before the reply leaves. */
  #settle(accepted: boolean, reason: RejectReason, deniedStatus: number, waitMs: number): Verdict {
    if (!accepted) this.#giveBack();
    this.accepted = accepted;
    this.reason = reason;
    this.deniedStatus = deniedStatus;
    this.waitMs = waitMs;
    this.end = this.#world.clock.wallSince(this.start);
    // A caller that went away hears nothing: it was not refused, and counts as no decision.
    if (this.#gone) this.#world.observer.odd("abandoned");
    else this.#world.observer.decided(this.#flow, this);
    return this;
  }

  #giveBack(): void {
    for (let at = 0; at < this.decisions.length; at++) {
      const decision = this.decisions[at];
      if (decision?.grant === undefined) continue;
      this.#asked(decision)?.undo(decision.grant);
      this.decisions[at] = { ...decision, consumed: 0, grant: undefined };
    }
  }

  /** Who made a decision, so that what was taken goes back where it came from. */
  #asked({ component }: Decision): Limiter | undefined {
    for (const stage of this.#lane.limiters) {
      const found = stage.find(({ item }) => item.component === component);
      if (found !== undefined) return found.item;
    }
    return undefined;
  }
}

function matching<T>(all: readonly Candidate<T>[], labels: Labels): T[] {
  const found: T[] = [];
  for (const candidate of all) if (applies(candidate, labels)) found.push(candidate.item);
  return found;
}
