// Classifiers: labels read out of the request before anybody judges it. Everything is compiled when a
// plan arrives; a run reads attributes, and gives either all of its labels or, on an error, none.

import { Fault } from "#base/fault.ts";
import { compileExtractor, type Extract, Reading } from "./classify/extract.ts";
import { judgeLabelName } from "./classify/name.ts";
import { sanitise } from "./classify/sanitise.ts";
import type { HttpAttributes } from "./flow.ts";
import type { Labels, Slots } from "./label.ts";
import type { ClassifierRule, LabelRule } from "./rules.ts";

/** Numbers as on the wire. */
export const ClassifierError = {
  none: 0,
  evalFailed: 1,
  emptyResultset: 2,
  ambiguousResultset: 3,
  multiExpression: 4,
  expressionNotMap: 5,
} as const;
export type ClassifierError = (typeof ClassifierError)[keyof typeof ClassifierError];

/** One run of one classifier. Identity-stable per error and plan, so writers may keep its encoded form. */
export interface ClassifierInfo {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: ClassifierError;
}

export interface Classifier {
  /** What a run without an error reports. */
  readonly info: ClassifierInfo;
  /** Makes this classifier's labels, and says how it went. Never throws. */
  run(reading: Reading, labels: Labels): ClassifierInfo;
}

/** A request as the classifiers of one check read it together: what several need is parsed once. */
export function readingOf(http: HttpAttributes): Reading {
  return new Reading(http);
}

interface LabelMaker {
  readonly slot: number;
  readonly telemetry: boolean;
  readonly extract: Extract;
}

/** Faults with INVALID_ARGUMENT, all reasons in one message, when a rule cannot be honoured. */
export function compileClassifier(rule: ClassifierRule, slots: Slots): Classifier {
  const faults = rule.rules.flatMap(judgeLabelRule);
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  const makers = rule.rules.map(
    ({ label, telemetry, extractor }): LabelMaker => ({
      slot: slots.of(label),
      telemetry,
      extract: compileExtractor(extractor),
    }),
  );
  const info = infoOf(rule, ClassifierError.none);
  const failed = infoOf(rule, ClassifierError.evalFailed);
  return { info, run: (reading, labels) => (makeLabels(makers, reading, labels) ? info : failed) };
}

/** Every fault of one label's rule, one message each; empty when it compiles. */
export function judgeLabelRule(rule: LabelRule): string[] {
  const faults = judgeLabelName(rule.label);
  try {
    compileExtractor(rule.extractor);
  } catch (thrown) {
    faults.push(`label "${rule.label}": ${Fault.from(thrown).message}`);
  }
  return faults;
}

function infoOf(rule: ClassifierRule, error: ClassifierError): ClassifierInfo {
  const { policyName, policyHash, index } = rule;
  return Object.freeze({ policyName, policyHash, classifierIndex: index, error });
}

/** All or nothing: nothing is made before every value is known. False when a value could not be had. */
function makeLabels(makers: readonly LabelMaker[], reading: Reading, labels: Labels): boolean {
  let values: (string | undefined)[];
  try {
    values = makers.map(({ extract }) => extract(reading));
  } catch {
    return false;
  }
  for (const [index, { slot, telemetry }] of makers.entries()) {
    const value = values[index];
    if (value !== undefined) labels.make(slot, sanitise(value), telemetry);
  }
  return true;
}
