// The description of one kind of stored configuration for agents, and the parts that the kinds share.

import { FAILURE_MODES, type FailureMode } from "#base/failure-mode.ts";
import { Fault } from "#base/fault.ts";
import {
  type LimiterKind,
  type LimiterNumbers,
  MISSING_LABEL_MODES,
  type MissingLabelMode,
  type Rule,
  usualFailureMode,
} from "#flow/rules.ts";
import { componentName } from "../../keys.ts";

/** A rule as a value states it, under the key name that the value's own attributes give it in a group. */
export interface StoredRule {
  readonly name: string;
  readonly rule: Rule;
  /** The part of the value that this version of the agent leaves out. */
  readonly without?: string;
}

/** The numbers of a decision, under the key name that its attributes give it in a group. */
export interface StoredNumbers {
  readonly name: string;
  readonly numbers: LimiterNumbers;
}

/** Both readers throw a Fault INVALID_ARGUMENT when the bytes are not a complete message of the kind. */
export interface FollowedKind {
  readRule(bytes: Uint8Array, group: string): StoredRule;
  /** Absent for kinds that no decision is made about. */
  readNumbers?(bytes: Uint8Array, group: string): StoredNumbers;
}

/** Names a component of one version of a policy. */
interface Attributes {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

/** Only the attributes that rules carry: messages may hold more. */
export function attributesOf({ policyName, policyHash, componentId }: Attributes): Attributes {
  return { policyName, policyHash, componentId };
}

export function nameIn(group: string, { policyName, componentId }: Attributes): string {
  return componentName(group, policyName, componentId);
}

interface OwnParameters {
  readonly onFailure: string | null;
  readonly onMissingLabel: string | null;
}

/** Fields of Sluice's own in the parameters of all limiters; absent ones, such as those of other controllers, mean `usual`. */
export function ownParameters(
  { onFailure, onMissingLabel }: OwnParameters,
  usual: { readonly kind: LimiterKind; readonly onMissingLabel: MissingLabelMode },
) {
  return {
    onFailure: oneOf("on_failure", FAILURE_MODES, onFailure) ?? usualFailureMode(usual.kind),
    onMissingLabel:
      oneOf("on_missing_label", MISSING_LABEL_MODES, onMissingLabel) ?? usual.onMissingLabel,
  };
}

/** The failure mode that made a decision, in the form of numbers. */
export function failureOf(decision: { readonly failureMode?: string | null | undefined }): {
  readonly failure?: FailureMode;
} {
  const failure = oneOf("failure_mode", FAILURE_MODES, decision.failureMode);
  return failure === undefined ? {} : { failure };
}

/** One of the choices; undefined where the text is absent. @throws Fault INVALID_ARGUMENT for any other text */
export function oneOf<T extends string>(
  field: string,
  choices: readonly T[],
  text: string | null | undefined,
): T | undefined {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined || text === null || text === undefined) return found;
  const got = JSON.stringify(text.slice(0, 100));
  throw new Fault("INVALID_ARGUMENT", `${field}: wanted one of ${choices.join(", ")}, got ${got}`);
}

/** The fault of a wrapper message without its attributes or without its component. */
export function incomplete(messageName: string): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `${messageName}: wanted attributes and a component, got a message without one of them`,
  );
}
