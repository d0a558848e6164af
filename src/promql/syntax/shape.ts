// Puts the operators of a query around their operands. The grammar reads the words, but lets a modifier at the
// end of `a + b offset 5m` hold the whole sum, and a sign hold before `^`; so what it read is laid out flat
// and bound again, as a server binds it.

import type { Expr, Matching } from "../ast.ts";

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

const BINDING: Readonly<Record<string, number>> = {
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
/** The only one that binds to the right; a sign holds what it binds. */
const POWER = 6;

/** `items` alternate between operands (with their signs and modifiers) and infix operators. */
export function shape(items: readonly Item[]): Expr {
  let at = 0;
  return expression(1);

  function expression(least: number): Expr {
    let left = operand();
    for (;;) {
      const next = items[at];
      if (next?.kind !== "infix") return left;
      const binding = BINDING[next.infix.op] ?? 0;
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
    if (item?.kind !== "operand") throw new Error("an operator without its operand was read");
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
