// The description of one kind of stored configuration for agents, and the parts that the kinds share.

import { FAILURE_MODES, type FailureMode } from "#base/failure-mode.ts";
import { Fault } from "#base/fault.ts";
import {
  type LimiterKind,
  type LimiterNumbers,
  type LimiterRule,
  MISSING_LABEL_MODES,
  type MissingLabelMode,
  type Rule,
  usualFailureMode,
} from "#flow/rules.ts";
import type { Decoded, MessageName } from "#wire/protobuf/message-types.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { componentName } from "../../keys.ts";
import { type SelectorMessage, selectorRule } from "./selector.ts";

/** The rule of a stored value, with the key name that follows from the value's attributes and a group. */
export interface StoredRule {
  readonly name: string;
  readonly rule: Rule;
  /** The part of the value that this version of the agent does not run. */
  readonly without?: string;
}

/** The numbers of a decision, with the key name that follows from its attributes and a group. */
export interface StoredNumbers {
  readonly name: string;
  readonly numbers: LimiterNumbers;
}

/** Both readers throw a Fault INVALID_ARGUMENT when the bytes are not a complete message of the kind. */
export interface FollowedKind {
  readRule(bytes: Uint8Array, group: string): StoredRule;
  /** Absent for kinds without decisions. */
  readNumbers?(bytes: Uint8Array, group: string): StoredNumbers;
}

/** Names a component of one version of a policy. */
export interface Attributes {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
}

/** The attributes that rules carry. Messages may hold more. */
export function attributesOf({ policyName, policyHash, componentId }: Attributes): Attributes {
  return { policyName, policyHash, componentId };
}

type WithoutAttributes<T> = T extends unknown ? Omit<T, "kind" | keyof Attributes> : never;

/** A kind of limiter: its messages in `aperture.policy.sync.v1`, and readers of their fields besides the attributes. */
interface LimiterMessages<
  K extends LimiterRule["kind"],
  C extends MessageName,
  D extends MessageName,
> {
  readonly config: C;
  /** `null` for a message that lacks the component or its parameters. */
  rule(message: Decoded<C>): WithoutAttributes<Extract<LimiterRule, { kind: K }>> | null;
  readonly decision: D;
  numbers(message: Decoded<D>): WithoutAttributes<Extract<LimiterNumbers, { kind: K }>> | null;
}

export function limiterKind<
  K extends LimiterRule["kind"],
  C extends MessageName,
  D extends MessageName,
>(kind: K, { config, rule, decision, numbers }: LimiterMessages<K, C, D>): FollowedKind {
  return {
    readRule(bytes, group) {
      const message = decode(config, bytes);
      const { name, attributes, part } = partOf(config, message, rule(message), group);
      return { name, rule: { kind, ...attributes, ...part } as unknown as Rule };
    },
    readNumbers(bytes, group) {
      const message = decode(decision, bytes);
      const { name, attributes, part } = partOf(decision, message, numbers(message), group);
      return { name, numbers: { kind, ...attributes, ...part } as unknown as LimiterNumbers };
    },
  };
}

function partOf<P extends object>(
  wrapper: MessageName,
  message: object,
  part: P | null,
  group: string,
) {
  const { commonAttributes = null } = message as { commonAttributes?: Attributes | null };
  if (commonAttributes === null || part === null) throw incomplete(wrapper);
  const attributes = attributesOf(commonAttributes);
  return {
    name: componentName(group, attributes.policyName, attributes.componentId),
    attributes,
    part,
  };
}

/** The parts of a limiter's message that hold the parameters that all limiters have. */
interface CommonParts {
  readonly selectors: readonly SelectorMessage[];
  /** The part that holds the status of refusals. */
  readonly refusal: { readonly deniedResponseStatusCode: number } | null;
  /** Other controllers leave out the fields that Sluice added. An absent field means the default of the kind. */
  readonly parameters: {
    readonly onFailure?: string | null | undefined;
    readonly onMissingLabel?: string | null | undefined;
  };
}

/** The parameters that all limiters have. */
export function commonParameters(
  { selectors, refusal, parameters }: CommonParts,
  kind: LimiterKind,
  onMissingLabel: MissingLabelMode = "pass",
) {
  return {
    selectors: selectors.map(selectorRule),
    deniedStatus: refusal?.deniedResponseStatusCode ?? 0,
    onFailure: oneOf("on_failure", FAILURE_MODES, parameters.onFailure) ?? usualFailureMode(kind),
    onMissingLabel:
      oneOf("on_missing_label", MISSING_LABEL_MODES, parameters.onMissingLabel) ?? onMissingLabel,
  };
}

/** The numbers of a decision, with the failure mode that made them. */
export function numbersOf<N extends object>({
  failureMode,
  ...numbers
}: N & { readonly failureMode?: string | null | undefined }): Omit<N, "failureMode"> & {
  readonly failure?: FailureMode;
} {
  const failure = oneOf("failure_mode", FAILURE_MODES, failureMode);
  return failure === undefined ? numbers : { ...numbers, failure };
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

export function incomplete(messageName: string): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `${messageName}: wanted attributes and a component, got a message without one of them`,
  );
}
