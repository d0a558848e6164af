// Restricts a query to series with given labels, so that one tenant cannot read another's series.

import { Fault } from "#base/fault.ts";
import type { Expr, Matcher, Selector } from "./syntax/ast.ts";
import { parse } from "./syntax/parse.ts";
import { print } from "./syntax/print.ts";

interface Label {
  readonly name: string;
  readonly value: string;
}

/**
 * Adds matchers for `labels` to every selector, replacing the selector's own matchers on these labels. Throws when
 * the query cannot be parsed. Without labels the text is returned unchanged and unparsed.
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
      return withMatchers(expr, matchers);
    case "range":
      return { ...expr, of: withMatchers(expr.of, matchers) };
    case "paren":
    case "unary":
    case "subquery":
      return { ...expr, of: enforce(expr.of, matchers) };
    case "call":
      if (expr.name === "info" && expr.args.length < 2) {
        // With one argument, info would read the info series of all tenants.
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

function withMatchers(selector: Selector, matchers: readonly Matcher[]): Selector {
  const others = selector.matchers.filter(({ name }) =>
    matchers.every((each) => each.name !== name),
  );
  return { ...selector, matchers: [...others, ...matchers] };
}
