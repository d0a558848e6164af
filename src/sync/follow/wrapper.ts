// What an agent needs to know about one kind of stored configuration, and the parts that the kinds share.

import { Fault } from "#base/fault.ts";
import type { LimiterNumbers, Rule } from "#flow/rules.ts";
import { componentName } from "../keys.ts";

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

/** The fault of a wrapper message without its attributes or without its component. */
export function incomplete(messageName: string): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `${messageName}: wanted attributes and a component, got a message without one of them`,
  );
}
