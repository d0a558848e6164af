// Applies operator precedence. The grammar attaches the modifier in `a + b offset 5m` to the whole sum, and lets a
// sign bind more tightly than `^`; so the parser flattens expressions, and this file binds operators as a server
// does.

import type { Expr, Matching } from "./ast.ts";

export type Item =
  | { readonly kind: "operand"; readonly expr: Expr }
  | { readonly kind: "sign"; readonly sign: "+" | "-"; readonly from: number }
  | { readonly kind: "postfix"; readonly bind: (expr: Expr) => Expr }
  | { readonly kind: "infix"; readonly infix: Infix };

export interface Infix {
  readonly from: number;
  readonly op: string;
  readonly bool: boolean;
  readonly matching: Matching | undefined;
  readonly fill: string;
}

const PRECEDENCE: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  unless: 2,
  "==": 3,
  "!=": 3,
  ">": 3,
  "<": 3,
  ">=": 3,
  "<=": 3,
  "</": 3,
  ">/": 3,
  "+": 4,
  "-": 4,
  "*": 5,
  "/": 5,
  "%": 5,
  atan2: 5,
  "^": 6,
};
/** The only right-associative operator; it binds more tightly than a sign. */
const POWER = 6;

/** `items` alternate between operands (with their signs and modifiers) and infix operators. */
export function bindOperators(items: readonly Item[]): Expr {
  let at = 0;
  return expression(1);

  function expression(least: number): Expr {
    let left = operand();
    for (;;) {
      const next = items[at];
      if (next?.kind !== "infix") return left;
      const binding = PRECEDENCE[next.infix.op] ?? 0;
      if (binding < least) return left;
      at += 1;
      const right = expression(binding === POWER ? POWER : binding + 1);
      left = { kind: "binary", ...next.infix, from: left.from, left, right };
    }
  }

  function operand(): Expr {
    const item = items[at];
    at += 1;
    if (item?.kind === "sign") return signed(item.sign, item.from, expression(POWER));
    if (item?.kind !== "operand")
      throw new Error("the grammar gave an operator without an operand");
    let { expr } = item;
    for (;;) {
      const next = items[at];
      if (next?.kind !== "postfix") return expr;
      at += 1;
      expr = next.bind(expr);
    }
  }
}

function signed(sign: "+" | "-", from: number, of: Expr): Expr {
  if (of.kind !== "number") return { kind: "unary", from, sign, of };
  return { kind: "number", from, value: sign === "-" ? -of.value : of.value };
}
