// Which flows a component speaks about: control point, agent group, service, and a matcher over labels.

import {
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
  key: required(text()),
  operator: required(text({ oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] })),
  values: list(text()),
});
export type MatchRequirement = ValueOf<typeof matchRequirement>;

const equalsExpression = message("EqualsExpression", {
  label: required(text()),
  value: text(),
});

const matchesExpression = message("MatchesExpression", {
  label: required(text()),
  regex: required(text({ regex: true })),
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
  of: list(part(EXPRESSION)),
});

const expression: Message<Expression> = message(
  "Expression",
  {
    not: arm("variant", EXPRESSION),
    all: arm("variant", expressionList),
    any: arm("variant", expressionList),
    label_exists: either("variant", text({ filled: true })),
    label_equals: arm("variant", equalsExpression),
    label_matches: arm("variant", matchesExpression),
  },
  { oneOf: { variant: "expression" } },
);

export const labelMatcher = message("LabelMatcher", {
  match_labels: map(text()),
  match_expressions: deprecated("match_list", list(part(matchRequirement))),
  expression: part(expression),
  match_list: list(part(matchRequirement)),
});
export type LabelMatcher = ValueOf<typeof labelMatcher>;

/** A selector that names no group means the group that agents are in when they name none. */
export const selector = message("Selector", {
  control_point: required(text()),
  agent_group: text({ default: "default", filled: true, noSlash: true }),
  service: text({ default: "any", filled: true }),
  label_matcher: part(labelMatcher),
});
export type Selector = ValueOf<typeof selector>;

export const selectors = () => filledList(part(selector));

/** The groups whose agents a component speaks to: distinct, in the order in which its selectors name them. */
export function groupsOf(of: readonly Pick<Selector, "agent_group">[]): readonly string[] {
  return [...new Set(of.map(({ agent_group: group }) => group))];
}
