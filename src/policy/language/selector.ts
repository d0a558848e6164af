// Which flows a component speaks about: control point, agent group, service, and a matcher over labels.

import {
  about,
  arm,
  deprecated,
  either,
  filledList,
  list,
  type Message,
  map,
  message,
  part,
  required,
  text,
  type ValueOf,
} from "./field.ts";

const matchRequirement = message("MatchRequirement", {
  key: about("Name of the label.", required(text())),
  operator: about(
    "How the label is compared.",
    required(text({ oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] })),
  ),
  values: about("Values for `In` and `NotIn`.", list(text())),
});
export type MatchRequirement = ValueOf<typeof matchRequirement>;

const equalsExpression = message("EqualsExpression", {
  label: about("Name of the label.", required(text())),
  value: about("Value that it must have.", text()),
});

const matchesExpression = message("MatchesExpression", {
  label: about("Name of the label.", required(text())),
  regex: about("Pattern that its value must match.", required(text({ regex: true }))),
});

export interface Expression {
  readonly not: Expression | undefined;
  readonly all: ExpressionList | undefined;
  readonly any: ExpressionList | undefined;
  readonly label_exists: string | undefined;
  readonly label_equals: ValueOf<typeof equalsExpression> | undefined;
  readonly label_matches: ValueOf<typeof matchesExpression> | undefined;
}

interface ExpressionList {
  readonly of: readonly Expression[];
}

const EXPRESSION = (): Message<Expression> => expression;

const expressionList: Message<ExpressionList> = message("Expression.List", {
  of: about("The expressions.", list(part(EXPRESSION))),
});

const expression: Message<Expression> = message(
  "Expression",
  {
    not: about("True where the expression inside is not.", arm("variant", EXPRESSION)),
    all: about("True where all expressions inside are.", arm("variant", expressionList)),
    any: about("True where one expression inside is.", arm("variant", expressionList)),
    label_exists: about(
      "True where the flow has this label.",
      either("variant", text({ filled: true })),
    ),
    label_equals: about("True where the label has this value.", arm("variant", equalsExpression)),
    label_matches: about(
      "True where the label's value matches.",
      arm("variant", matchesExpression),
    ),
  },
  { oneOf: { variant: "expression" } },
);

export const labelMatcher = message("LabelMatcher", {
  match_labels: about("Labels and the values that they must have.", map(text())),
  match_expressions: about(
    "Older name of `match_list`.",
    deprecated("match_list", list(part(matchRequirement))),
  ),
  expression: about("Condition of any shape.", part(expression)),
  match_list: about("Conditions that must all hold.", list(part(matchRequirement))),
});
export type LabelMatcher = ValueOf<typeof labelMatcher>;

export const agentGroup = () =>
  about(
    "Group of agents that is spoken to.",
    text({ default: "default", filled: true, noSlash: true }),
  );

/** A selector that names no group means the group that agents are in when they name none. */
export const selector = message("Selector", {
  control_point: about(
    "Where in the service: `ingress`, `egress`, or the name of a feature.",
    required(text()),
  ),
  agent_group: agentGroup(),
  service: about(
    "Service of the flow; `any` is every one.",
    text({ default: "any", filled: true }),
  ),
  label_matcher: about(
    "Which labels the flow must have; everything in it must hold.",
    part(labelMatcher),
  ),
});
export type Selector = ValueOf<typeof selector>;

export const selectors = () => about("Which flows it applies to.", filledList(part(selector)));

/** The groups whose agents a component speaks to: distinct, in the order in which its selectors name them. */
export function groupsOf(of: readonly Pick<Selector, "agent_group">[]): readonly string[] {
  return [...new Set(of.map(({ agent_group: group }) => group))];
}
