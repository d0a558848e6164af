// The path of one check, in reading order: run the classifiers, find the flux meters, ask one stage after the other until
// one refuses or all have granted, settle, and tell telemetry. `stages.ts` has the order of the stages.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { decidesAlone } from "#base/failure-mode.ts";
import type { Held } from "#base/handler.ts";
import { byFailureMode, needsFailureMode, unanswered, withoutGrant } from "./check/decision.ts";
import { heldSlots } from "./check/held-slots.ts";
import { PendingAnswers } from "./check/pending-answers.ts";
import type { Reservations } from "./check/reservations.ts";
import { RequestReader } from "./classify/extract.ts";
import { NOT_TESTED } from "./classify/unreadable.ts";
import {
  type ClassifierInfo,
  type Decision,
  type Flow,
  grantOf,
  Pending,
  RejectReason,
  type Verdict,
} from "./flow.ts";
import { Labels } from "./label.ts";
import type { Limiter } from "./limit/limiter.ts";
import type { Match } from "./match/work.ts";
import type { Observer } from "./observer.ts";
import type { Plan, ServicePlan } from "./plan/plan.ts";
import { applies, type Candidate } from "./plan/selection.ts";
import type { Stage } from "./stages.ts";

export interface CheckContext {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly observer: Observer;
  /** Makes the id of each verdict. */
  readonly nextDecisionId: () => string;
  /** Absent where no flow has an estimate to settle. */
  readonly reservations?: Reservations;
  /** Counts the checks that wait for anything but their turn in a queue, whose length is bounded already. */
  readonly inProgress?: { begun(): void; ended(): void } | undefined;
}

/** Judges one flow, which arrives `now`. Returns the verdict itself unless a limiter has to wait. */
export function judge(
  plan: Plan,
  flow: Flow,
  context: CheckContext,
  now = context.clock.now(),
): Verdict | Pending<Verdict> {
  const here = plan.controlPoint(flow.controlPoint);
  const labels = new Labels(here.labels, flow.labels);
  return judgeBy(here.forServices(flow.services), labels, flow, context, now);
}

/** Judges a flow whose plan and labels are known already. No other check may use `labels`. */
export function judgeBy(
  plan: ServicePlan,
  labels: Labels,
  flow: Flow,
  context: CheckContext,
  now: number,
): Verdict | Pending<Verdict> {
  return new Check(plan, labels, flow, context, now).run();
}

const NO_DECISIONS: Decision[] = [];
const NO_CLASSIFIERS: readonly ClassifierInfo[] = [];
const NO_METERS: readonly string[] = [];

/**
 * One check. It keeps its plan to the end, may stop at a stage that waits, and settles once. It is then also its own
 * verdict, because a second object for each check would cost time.
 */
class Check implements Verdict {
  accepted = false;
  reason: RejectReason = RejectReason.none;
  deniedStatus = 0;
  waitMs = 0;
  decisions = NO_DECISIONS;
  classifiers = NO_CLASSIFIERS;
  fluxMeters = NO_METERS;
  held: Held | undefined;
  reservationId = "";
  decisionId = "";
  readonly labels: Labels;
  readonly start: number;
  end = 0;
  readonly #flow: Flow;
  readonly #context: CheckContext;
  readonly #plan: ServicePlan;
  /** Index of the step being asked, or to be asked next. */
  #step = 0;
  /** When the step was asked, on the monotonic clock, which is read again only after a wait. */
  #asked: number;
  /** Index of the first decision of this step. */
  #from = 0;
  /** Answers of this step that have not come yet; most checks have none. */
  #pending: PendingAnswers | undefined;
  /** The promised verdict, once a step had to wait. */
  #promised: Pending<Verdict> | undefined;
  #callerLeft = false;
  /** A limiter has refused the flow. */
  #refused = false;

  /** `refusal` and `shed` belong to verdicts that are made without rules. */
  get refusal(): undefined {
    return undefined;
  }

  get shed(): undefined {
    return undefined;
  }

  constructor(plan: ServicePlan, labels: Labels, flow: Flow, context: CheckContext, now: number) {
    this.#flow = flow;
    this.#context = context;
    this.#asked = now;
    this.start = context.clock.wallOf(this.#asked);
    this.#plan = plan;
    this.labels = labels;
  }

  run(): Verdict | Pending<Verdict> {
    try {
      const { classifiers, meters } = this.#plan;
      if (classifiers.length > 0) this.#classify();
      if (meters.length > 0) this.fluxMeters = this.#meter(meters);
      return this.#ask();
    } catch (thrown) {
      this.#abort();
      throw thrown;
    }
  }

  /** True if a candidate applies; undefined, which is counted, if testing it would cost too much. */
  #applies(candidate: Candidate<unknown>): Match {
    const match = applies(candidate, this.labels);
    if (match === undefined) this.#context.observer.anomaly("match_too_costly");
    return match;
  }

  /**
   * Runs the classifiers that match the labels with which the flow arrived; none sees the labels of another. If it is not
   * known whether a classifier matches, its labels are unreadable.
   */
  #classify(): void {
    const { http } = this.#flow;
    if (http === undefined) return;
    const { classifiers } = this.#plan;
    const request = new RequestReader(http);
    const { observer } = this.#context;
    const matches = classifiers.map((candidate) => this.#applies(candidate));
    const infos: ClassifierInfo[] = [];
    for (const [at, { item }] of classifiers.entries()) {
      const match = matches[at];
      if (match === false) continue;
      const info = match ? item.run(request, this.labels) : item.fail(NOT_TESTED, this.labels);
      if (info.unreadable !== undefined) observer.anomaly("label_unreadable");
      infos.push(info);
    }
    this.classifiers = infos;
  }

  /** The flux meters that measure this flow. */
  #meter(meters: readonly Candidate<string>[]): readonly string[] {
    const names: string[] = [];
    for (const candidate of meters) if (this.#applies(candidate)) names.push(candidate.item);
    return names;
  }

  /** Asks one step after the other until one refuses, one has to wait, or all have granted. */
  #ask(): Verdict | Pending<Verdict> {
    const { steps } = this.#plan;
    while (this.#step < steps.length) {
      const step = steps[this.#step];
      if (step === undefined) break;
      this.#from = this.decisions.length;
      this.#take(step.limiters, this.#asked);
      if (this.#pending !== undefined) return this.#wait(this.#pending);
      const verdict = this.#finishStep(step.stage);
      if (verdict !== undefined) return verdict;
    }
    return this.#settle(true, RejectReason.none, 0, 0);
  }

  /**
   * Takes from every limiter that matches, even after one has refused, because the reply names them all. A limiter that
   * may match is asked as well, unless its failure mode decides without a count. `now` is an argument so that all
   * limiters share one heap number.
   */
  #take(limiters: readonly Candidate<Limiter>[], now: number): void {
    for (let at = 0; at < limiters.length; at++) {
      const candidate = limiters[at];
      if (candidate === undefined) continue;
      const match = this.#applies(candidate);
      if (match === false) continue;
      const limiter = candidate.item;
      const untested = match === undefined && candidate.exempts?.(this.labels) !== true;
      const taken =
        untested && decidesAlone(limiter.component.onFailure)
          ? unanswered(limiter.component)
          : limiter.take(this.#flow, this.labels, now);
      if (taken instanceof Pending) this.#await(limiter, taken, untested);
      else this.#add(this.#resolve(taken, untested));
    }
  }

  #add(decision: Decision): void {
    // An array that starts with its first element allocates a tenth of one that grows from empty.
    if (this.decisions.length === 0) this.decisions = [decision];
    else this.decisions.push(decision);
  }

  /**
   * An undecided take is not a grant: the failure mode of its policy answers, and the decision names the mode. The same
   * goes for a limiter that was asked although it is not known whether it applies (`untested`).
   */
  #resolve(decision: Decision, untested: boolean): Decision {
    let resolved = decision;
    if (needsFailureMode(decision)) {
      this.#context.observer.anomaly("undecided");
      resolved = byFailureMode(decision);
    } else if (untested) {
      this.#context.observer.anomaly("undecided");
      resolved = { ...decision, failure: decision.failure ?? decision.component.onFailure };
    }
    if (resolved.dropped) this.#refused = true;
    return resolved;
  }

  /** The verdict if this step ends the check; otherwise moves on to the next step. */
  #finishStep(stage: Stage): Verdict | undefined {
    this.#step += 1;
    const { decisions } = this;
    const from = this.#from;
    if (stage.rampModeNeedsLimiter && this.#flow.rampMode && decisions.length === from) {
      return this.#settle(false, RejectReason.noMatchingRamp, 0, 0);
    }
    let first: Decision | undefined;
    let waitMs = 0;
    for (let at = from; at < decisions.length; at++) {
      const decision = decisions[at];
      if (!decision?.dropped) continue;
      first ??= decision;
      waitMs = Math.max(waitMs, decision.waitMs);
    }
    if (first !== undefined) {
      const status = first.component.deniedStatus || stage.deniedStatus;
      return this.#settle(false, stage.reason, status, waitMs);
    }
    return this.#callerLeft ? this.#settle(false, stage.reason, stage.deniedStatus, 0) : undefined;
  }

  /** All or none: a refusal gives back everything that any stage took, before the reply leaves. */
  #settle(accepted: boolean, reason: RejectReason, deniedStatus: number, waitMs: number): Verdict {
    if (accepted) this.#hold();
    else this.#giveBack();
    this.accepted = accepted;
    this.reason = reason;
    this.deniedStatus = deniedStatus;
    this.waitMs = waitMs;
    const { clock, nextDecisionId } = this.#context;
    this.decisionId = nextDecisionId();
    // The system clock may have been set back in between.
    this.end = Math.max(this.start, clock.wallOf(clock.now()));
    // A caller that went away receives nothing, so this is not counted as a decision.
    if (this.#callerLeft) this.#context.observer.anomaly("abandoned");
    else this.#context.observer.decided(this.#flow, this);
    return this;
  }

  /** Remembers the slots and estimates that end with the flow. */
  #hold(): void {
    const { slotLimiters, settlingLimiters } = this.#plan;
    const { observer, reservations } = this.#context;
    if (slotLimiters.size > 0) this.held = heldSlots(this.decisions, slotLimiters, observer);
    if (settlingLimiters.size > 0 && reservations !== undefined)
      this.reservationId = reservations.open(this.decisions, settlingLimiters);
  }

  #giveBack(): void {
    for (let at = 0; at < this.decisions.length; at++) {
      const decision = this.decisions[at];
      const grant = decision === undefined ? undefined : grantOf(decision);
      if (decision === undefined || grant === undefined) continue;
      this.#limiterOf(decision)?.undo(grant);
      this.decisions[at] = withoutGrant(decision);
    }
  }

  /** The limiter that made a decision. */
  #limiterOf({ component }: Decision): Limiter | undefined {
    for (const { limiters } of this.#plan.steps) {
      const found = limiters.find(({ item }) => item.component === component);
      if (found !== undefined) return found.item;
    }
    return undefined;
  }

  /** Something threw, so there is no verdict, and everything is given back. */
  #abort(): void {
    this.#pending?.abandon();
    this.#giveBack();
  }

  // From here on: waiting, which hardly any check does.

  /** Reserves a place for the decision, so that decisions keep the order of components. */
  #await(limiter: Limiter, taken: Pending<Decision>, untested: boolean): void {
    const place = this.decisions.length;
    this.#add(unanswered(limiter.component));
    this.#pending ??= new PendingAnswers();
    this.#pending.add(taken, {
      answered: (decision = unanswered(limiter.component)) => {
        this.decisions[place] = this.#resolve(decision, untested);
        if (this.#refused) this.#pending?.leaveQueues();
      },
      late: (decision) => {
        const grant = grantOf(decision);
        if (grant !== undefined) limiter.undo(grant);
      },
    });
  }

  /**
   * Waits until all limiters of the step have answered or the caller's time is over. After that, failure modes answer for
   * the missing ones.
   */
  #wait(pending: PendingAnswers): Pending<Verdict> {
    const { clock, observer } = this.#context;
    const later = this.#promised ?? new Pending<Verdict>(() => this.#leave());
    this.#promised = later;
    if (this.#refused) pending.leaveQueues();
    const inProgress = pending.onlyQueues ? undefined : this.#context.inProgress;
    inProgress?.begun();
    pending.wait(clock, observer, this.#flow.deadline, {
      complete: () => {
        inProgress?.ended();
        this.#pending = undefined;
        this.#asked = clock.now();
        this.#resume(later);
      },
      failed: (thrown) => {
        inProgress?.ended();
        this.#abort();
        later.fail(thrown);
      },
    });
    return later;
  }

  #resume(later: Pending<Verdict>): void {
    try {
      const step = this.#plan.steps[this.#step];
      const next = (step === undefined ? undefined : this.#finishStep(step.stage)) ?? this.#ask();
      if (!(next instanceof Pending)) later.settle(next);
    } catch (thrown) {
      this.#abort();
      later.fail(thrown);
    }
  }

  /** The caller went away. The check is not accepted, so nothing stays taken. */
  #leave(): void {
    this.#callerLeft = true;
    this.#pending?.end();
  }
}
