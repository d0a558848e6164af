// Selectors: which flows a component applies to, by control point, agent group, service and labels.

import {
  about,
  arm,
  configured,
  deprecated,
  either,
  filledList,
  fromTargets,
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
  key: about("Name of the label.", required(text({ name: true }))),
  operator: about(
    "Comparison.",
    required(text({ oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] })),
  ),
  values: about("Values for `In` and `NotIn`.", list(text())),
});
export type MatchRequirement = ValueOf<typeof matchRequirement>;

const equalsExpression = message("EqualsExpression", {
  label: about("Name of the label.", required(text({ name: true }))),
  value: about("Value that the label must have.", text()),
});

const matchesExpression = message("MatchesExpression", {
  label: about("Name of the label.", required(text({ name: true }))),
  regex: about("RE2 pattern that the value must match.", required(text({ regex: true }))),
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
    not: about("True if the inner expression is false.", arm("variant", EXPRESSION)),
    all: about("True if all inner expressions are true.", arm("variant", expressionList)),
    any: about("True if any inner expression is true.", arm("variant", expressionList)),
    label_exists: about(
      "True if the flow has this label.",
      either("variant", text({ filled: true })),
    ),
    label_equals: about("True if the label has this value.", arm("variant", equalsExpression)),
    label_matches: about(
      "True if the value of the label matches a pattern.",
      arm("variant", matchesExpression),
    ),
  },
  { oneOf: { variant: "expression" } },
);

export const labelMatcher = message("LabelMatcher", {
  match_labels: about("Required values by label.", map(text())),
  match_expressions: about(
    "Former name of `match_list`.",
    deprecated("match_list", list(part(matchRequirement))),
  ),
  expression: about("A condition on labels, built from nested expressions.", part(expression)),
  match_list: about("Conditions on labels, all of which must hold.", list(part(matchRequirement))),
});
export type LabelMatcher = ValueOf<typeof labelMatcher>;

/** The key with the name of a label, in each part of a label matcher that has one. */
export const MATCHED_LABEL: ReadonlyMap<Message, string> = new Map<Message, string>([
  [matchRequirement, "key"],
  [equalsExpression, "label"],
  [matchesExpression, "label"],
  [expression as Message, "label_exists"],
]);

export const agentGroup = () =>
  about(
    "Agent group that the selector applies to. The key `policies.default_agent_group` of the controller names another default.",
    configured(
      "defaultGroup",
      text({ default: "default", filled: true, noSlash: true, name: true }),
    ),
  );

/** The default agent group is the one that agents are in by default, unless the controller is configured otherwise. */
export const selector = message("Selector", {
  control_point: about(
    "Control point: `ingress`, `egress`, or the name of a feature. A resource with `targetRefs` may leave it out.",
    fromTargets(required(text({ name: true }))),
  ),
  agent_group: agentGroup(),
  service: about(
    "Service of the flow; `any` matches every service.",
    text({ default: "any", filled: true, name: true }),
  ),
  label_matcher: about(
    "Conditions on the flow's labels, all of which must hold.",
    part(labelMatcher),
  ),
});
export type Selector = ValueOf<typeof selector>;

export const selectors = () => about("Which flows it applies to.", filledList(part(selector)));

/** The agent groups of a component without duplicates, in the order in which its selectors name them. */
export function groupsOf(of: readonly Pick<Selector, "agent_group">[]): readonly string[] {
  return [...new Set(of.map(({ agent_group: group }) => group))];
}
