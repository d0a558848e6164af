// Selectors and label matchers of the language as the plain rules that agents run.

import type { ExpressionRule, MatcherRule, Requirement, SelectorRule } from "#flow/rules.ts";
import type { Expression, LabelMatcher, MatchRequirement, Selector } from "../language/selector.ts";

export function selectorRules(selectors: readonly Selector[]): readonly SelectorRule[] {
  return selectors.map((selector) => ({
    controlPoint: selector.control_point,
    agentGroup: selector.agent_group,
    service: selector.service,
    matcher: matcherRule(selector.label_matcher),
  }));
}

function matcherRule(matcher: LabelMatcher | undefined): MatcherRule {
  if (matcher === undefined) return { labels: {}, list: [], expression: undefined };
  const { match_labels, match_list, match_expressions, expression } = matcher;
  const list = match_list.length > 0 ? match_list : match_expressions;
  return {
    labels: Object.fromEntries(match_labels),
    list: list.map(requirement),
    expression: expression && expressionRule(expression),
  };
}

function requirement({ key, operator, values }: MatchRequirement): Requirement {
  return { key, operator: operatorOf(operator), values };
}

/** The table allows no other text. */
function operatorOf(operator: string): Requirement["operator"] {
  switch (operator) {
    case "In":
    case "NotIn":
    case "Exists":
      return operator;
    default:
      return "DoesNotExist";
  }
}

function expressionRule(expression: Expression): ExpressionRule {
  const { not, all, any, label_exists, label_equals, label_matches } = expression;
  if (not !== undefined) return { kind: "not", of: expressionRule(not) };
  if (all !== undefined) return { kind: "all", of: all.of.map(expressionRule) };
  if (any !== undefined) return { kind: "any", of: any.of.map(expressionRule) };
  if (label_equals !== undefined) return { kind: "label_equals", ...label_equals };
  if (label_matches !== undefined) return { kind: "label_matches", ...label_matches };
  return { kind: "label_exists", label: label_exists ?? "" };
}
