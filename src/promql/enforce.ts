// Holds a query to labels: whatever it selects must carry them, so that one tenant never reads another's
// series.

import { Fault } from "#base/fault.ts";
import type { Expr, Matcher, Selector } from "./ast.ts";
import { parse } from "./parse.ts";
import { print } from "./print.ts";

interface Label {
  readonly name: string;
  readonly value: string;
}

/**
 * Every selector matches `labels`; its own matchers on them are replaced. Faults when the query cannot be
 * read. Without labels the text is returned as it is, unread.
 */
export function enforceLabels(text: string, labels: readonly Label[]): string {
  if (labels.length === 0) return text;
  const matchers = labels.map(({ name, value }): Matcher => ({ name, op: "=", value }));
  return print(enforce(parse(text), matchers));
}

function enforce(expr: Expr, matchers: readonly Matcher[]): Expr {
  switch (expr.kind) {
    case "number":
    case "string":
      return expr;
    case "selector":
      return held(expr, matchers);
    case "range":
      return { ...expr, of: held(expr.of, matchers) };
    case "paren":
    case "unary":
    case "subquery":
      return { ...expr, of: enforce(expr.of, matchers) };
    case "call":
      if (expr.name === "info" && expr.args.length < 2) {
        // It would read the series of everybody to enrich its argument.
        throw new Fault("INVALID_ARGUMENT", "info: wanted a selector as its second argument");
      }
      return { ...expr, args: expr.args.map((arg) => enforce(arg, matchers)) };
    case "aggregate":
      return { ...expr, args: expr.args.map((arg) => enforce(arg, matchers)) };
    case "binary":
      return {
        ...expr,
        left: enforce(expr.left, matchers),
        right: enforce(expr.right, matchers),
      };
  }
}

function held(selector: Selector, matchers: readonly Matcher[]): Selector {
  const others = selector.matchers.filter(({ name }) =>
    matchers.every((each) => each.name !== name),
  );
  return { ...selector, matchers: [...others, ...matchers] };
}
