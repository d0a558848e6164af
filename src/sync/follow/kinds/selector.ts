// Reads selectors and label matchers from messages of the policy language.

import { Fault } from "#base/fault.ts";
import type { ExpressionRule, MatcherRule, Requirement, SelectorRule } from "#flow/rules.ts";
import type { Decoded } from "#wire/protobuf/message-types.ts";

type Language<Name extends string> = `aperture.policy.language.v1.${Name}`;
export type SelectorMessage = Decoded<Language<"Selector">>;
type MatcherMessage = Decoded<Language<"LabelMatcher">>;
type ExpressionMessage = Decoded<Language<"Expression">>;

const OPERATORS: readonly Requirement["operator"][] = ["In", "NotIn", "Exists", "DoesNotExist"];

export function selectorRule(message: SelectorMessage): SelectorRule {
  return {
    controlPoint: message.controlPoint,
    agentGroup: message.agentGroup,
    service: message.service || "any",
    matcher: matcherRule(message.labelMatcher),
  };
}

export function matcherRule(message: MatcherMessage | null): MatcherRule {
  if (message === null) return { labels: {}, list: [], expression: undefined };
  // The deprecated list counts only where the current one is empty.
  const list = message.matchList.length > 0 ? message.matchList : message.matchExpressions;
  return {
    labels: message.matchLabels,
    list: list.map(({ key, operator, values }) => ({
      key,
      operator: operatorOf(operator),
      values,
    })),
    expression: message.expression === null ? undefined : expressionRule(message.expression),
  };
}

function operatorOf(text: string): Requirement["operator"] {
  const operator = OPERATORS.find((known) => known === text);
  if (operator !== undefined) return operator;
  throw new Fault("INVALID_ARGUMENT", `operator: wanted one of ${OPERATORS.join(", ")}`);
}

function expressionRule(message: ExpressionMessage): ExpressionRule {
  const { not, all, any, labelExists, labelEquals, labelMatches } = message;
  if (not) return { kind: "not", of: expressionRule(not) };
  if (all) return { kind: "all", of: all.of.map(expressionRule) };
  if (any) return { kind: "any", of: any.of.map(expressionRule) };
  if (labelExists !== undefined) return { kind: "label_exists", label: labelExists };
  if (labelEquals) return { kind: "label_equals", ...labelEquals };
  if (labelMatches) return { kind: "label_matches", ...labelMatches };
  throw new Fault("INVALID_ARGUMENT", "expression: wanted one of its variants, got none");
}
