// Selectors: which flows a component applies to, by control point, agent group, service and labels.

import {
  arm,
  each,
  filledList,
  list,
  type Message,
  map,
  message,
  part,
  text,
  type ValueOf,
} from "./field.ts";

const matchRequirement = message("MatchRequirement", {
  key: text(1, { name: true }).required.about("Name of the label."),
  operator: text(2, { oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] }).required.about(
    "Comparison.",
  ),
  values: list(3, text()).about("Values for `In` and `NotIn`."),
});
export type MatchRequirement = ValueOf<typeof matchRequirement>;

const equalsExpression = message("EqualsExpression", {
  label: text(1, { name: true }).required.about("Name of the label."),
  value: text(2).about("Value that the label must have."),
});

const matchesExpression = message("MatchesExpression", {
  label: text(1, { name: true }).required.about("Name of the label."),
  regex: text(2, { regex: true }).required.about("RE2 pattern that the value must match."),
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
  of: list(1, each(EXPRESSION)).about("The expressions."),
});

const expression: Message<Expression> = message(
  "Expression",
  {
    not: arm(1, "variant", EXPRESSION).about("True if the inner expression is false."),
    all: arm(2, "variant", expressionList).about("True if all inner expressions are true."),
    any: arm(3, "variant", expressionList).about("True if any inner expression is true."),
    label_exists: text(4, { filled: true })
      .oneOf("variant")
      .about("True if the flow has this label."),
    label_equals: arm(5, "variant", equalsExpression).about("True if the label has this value."),
    label_matches: arm(6, "variant", matchesExpression).about(
      "True if the value of the label matches a pattern.",
    ),
  },
  { oneOf: { variant: "expression" } },
);

export const labelMatcher = message("LabelMatcher", {
  match_labels: map(1, text()).about("Required values by label."),
  match_expressions: list(2, each(matchRequirement))
    .deprecated("match_list")
    .about("Former name of `match_list`."),
  expression: part(3, expression).about("A condition on labels, built from nested expressions."),
  match_list: list(4, each(matchRequirement)).about(
    "Conditions on labels, all of which must hold.",
  ),
});
export type LabelMatcher = ValueOf<typeof labelMatcher>;

/** The key with the name of a label, in each part of a label matcher that has one. */
export const MATCHED_LABEL: ReadonlyMap<Message, string> = new Map<Message, string>([
  [matchRequirement, "key"],
  [equalsExpression, "label"],
  [matchesExpression, "label"],
  [expression as Message, "label_exists"],
]);

export const agentGroup = (tag: number) =>
  text(tag, { default: "default", filled: true, noSlash: true, name: true })
    .configured("defaultGroup")
    .about(
      "Agent group that the selector applies to. The key `policies.default_agent_group` of the controller names another default.",
    );

/** The default agent group is the one that agents are in by default, unless the controller is configured otherwise. */
export const selector = message("Selector", {
  control_point: text(1, { name: true }).required.fromTargets.about(
    "Control point: `ingress`, `egress`, or the name of a feature. A resource with `targetRefs` may leave it out.",
  ),
  agent_group: agentGroup(2),
  service: text(3, { default: "any", filled: true, name: true }).about(
    "Service of the flow; `any` matches every service.",
  ),
  label_matcher: part(4, labelMatcher).about(
    "Conditions on the flow's labels, all of which must hold.",
  ),
});
export type Selector = ValueOf<typeof selector>;

export const selectors = (tag: number) =>
  filledList(tag, each(selector)).about("Which flows it applies to.");

/** The agent groups of a component without duplicates, in the order in which its selectors name them. */
export function groupsOf(of: readonly Pick<Selector, "agent_group">[]): readonly string[] {
  return [...new Set(of.map(({ agent_group: group }) => group))];
}
