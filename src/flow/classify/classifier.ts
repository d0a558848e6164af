// Classifiers extract labels from the request before any limiter is asked. A value that cannot be read costs the flow only
// its own label, for which the rule may name another value.

import { Fault } from "#base/fault.ts";
import { ClassifierError, type ClassifierInfo } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import { labelRuleFaults } from "../rule-faults.ts";
import type { ClassifierRule } from "../rules.ts";
import { compileExtractor, type Extract, type RequestReader } from "./extract.ts";
import { sanitise } from "./sanitise.ts";
import { isUnreadable, type Unreadable } from "./unreadable.ts";

export interface Classifier {
  /** The report of a run in which no rule fails. */
  readonly info: ClassifierInfo;
  /** Sets this classifier's labels and returns the report of the run. Never throws. */
  run(request: RequestReader, labels: Labels): ClassifierInfo;
  /** Treats all values of the request as unreadable. */
  fail(reason: Unreadable, labels: Labels): ClassifierInfo;
}

interface LabelExtractor {
  readonly slot: number;
  readonly telemetry: boolean;
  /** Value of the label where its source cannot be read. */
  readonly otherwise: string | undefined;
  readonly extract: Extract;
}

/** Throws a Fault with INVALID_ARGUMENT and every reason in one message when the rule does not compile. */
export function compileClassifier(rule: ClassifierRule, slots: LabelSlots): Classifier {
  const faults = rule.rules.flatMap(labelRuleFaults);
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  const extractors = rule.rules.map(
    ({ label, telemetry, unreadableValue, extractor }): LabelExtractor => ({
      slot: slots.of(label),
      telemetry,
      otherwise: unreadableValue === "" ? undefined : unreadableValue,
      extract: compileExtractor(extractor),
    }),
  );
  const failed = infoOf(rule, ClassifierError.evalFailed, undefined);
  const info = rule.rego !== undefined ? failed : infoOf(rule, ClassifierError.none, undefined);
  // Each reason has one object, because writers keep the encoded form of a report.
  const unreadable = new Map<string, ClassifierInfo>();
  const unreadableInfo = ({ reason }: Unreadable): ClassifierInfo => {
    const known = unreadable.get(reason) ?? infoOf(rule, info.error, reason);
    unreadable.set(reason, known);
    return known;
  };
  return {
    info,
    run(request, labels) {
      const values = extractAll(extractors, request);
      if (values === undefined) return failed;
      const first = setLabels(extractors, values, labels);
      return first === undefined ? info : unreadableInfo(first);
    },
    fail(reason, labels) {
      setLabels(
        extractors,
        extractors.map(() => reason),
        labels,
      );
      return unreadableInfo(reason);
    },
  };
}

function infoOf(
  rule: ClassifierRule,
  error: ClassifierError,
  unreadable: string | undefined,
): ClassifierInfo {
  const { policyName, policyHash, index } = rule;
  return Object.freeze({ policyName, policyHash, classifierIndex: index, error, unreadable });
}

type Extracted = string | Unreadable | undefined;

/** Extracts every value before a label is set; undefined when an extractor throws. */
function extractAll(
  extractors: readonly LabelExtractor[],
  request: RequestReader,
): readonly Extracted[] | undefined {
  try {
    return extractors.map(({ extract }) => extract(request));
  } catch {
    return undefined;
  }
}

/** Sets the labels that have a value; returns the first value that could not be read. */
function setLabels(
  extractors: readonly LabelExtractor[],
  values: readonly Extracted[],
  labels: Labels,
): Unreadable | undefined {
  let first: Unreadable | undefined;
  for (const [index, { slot, telemetry, otherwise }] of extractors.entries()) {
    const extracted = values[index];
    const unreadable = isUnreadable(extracted);
    if (unreadable) first ??= extracted;
    const value = unreadable ? otherwise : extracted;
    if (value !== undefined) labels.set(slot, sanitise(value), telemetry);
  }
  return first;
}
