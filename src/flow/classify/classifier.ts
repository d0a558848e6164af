// Classifiers: labels extracted from the request before any limiter sees it. Extractors are compiled when a
// plan arrives; a run sets either all labels of its classifier or, on an error, none.

import { Fault } from "#base/fault.ts";
import { ClassifierError, type ClassifierInfo } from "../flow.ts";
import type { LabelSlots, Labels } from "../label.ts";
import { labelRuleFaults } from "../rule-faults.ts";
import type { ClassifierRule } from "../rules.ts";
import { compileExtractor, type Extract, type RequestReader } from "./extract.ts";
import { sanitise } from "./sanitise.ts";

export interface Classifier {
  /** The report of a run in which no rule fails. */
  readonly info: ClassifierInfo;
  /** Sets this classifier's labels and returns the report of the run. Never throws. */
  run(request: RequestReader, labels: Labels): ClassifierInfo;
}

interface LabelExtractor {
  readonly slot: number;
  readonly telemetry: boolean;
  readonly extract: Extract;
}

/** Throws a Fault with INVALID_ARGUMENT and every reason in one message when the rule does not compile. */
export function compileClassifier(rule: ClassifierRule, slots: LabelSlots): Classifier {
  const faults = rule.rules.flatMap(labelRuleFaults);
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  const extractors = rule.rules.map(
    ({ label, telemetry, extractor }): LabelExtractor => ({
      slot: slots.of(label),
      telemetry,
      extract: compileExtractor(extractor),
    }),
  );
  const failed = infoOf(rule, ClassifierError.evalFailed);
  const info = rule.partial === true ? failed : infoOf(rule, ClassifierError.none);
  return {
    info,
    run: (request, labels) => (setLabels(extractors, request, labels) ? info : failed),
  };
}

function infoOf(rule: ClassifierRule, error: ClassifierError): ClassifierInfo {
  const { policyName, policyHash, index } = rule;
  return Object.freeze({ policyName, policyHash, classifierIndex: index, error });
}

/** Extracts every value before it sets any label. False, and no label set, when an extractor throws. */
function setLabels(
  extractors: readonly LabelExtractor[],
  request: RequestReader,
  labels: Labels,
): boolean {
  let values: (string | undefined)[];
  try {
    values = extractors.map(({ extract }) => extract(request));
  } catch {
    return false;
  }
  for (const [index, { slot, telemetry }] of extractors.entries()) {
    const value = values[index];
    if (value !== undefined) labels.set(slot, sanitise(value), telemetry);
  }
  return true;
}
