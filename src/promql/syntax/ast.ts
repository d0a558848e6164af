// The syntax tree of a query. Modifiers are attached to the part that they modify, label names are unquoted, and the sign of
// a number is part of it, so that texts with the same meaning have the same tree.

export type MatchOp = "=" | "!=" | "=~" | "!~";

export interface Matcher {
  readonly name: string;
  readonly op: MatchOp;
  readonly value: string;
}

/** A duration in a query. */
export interface DurationLiteral {
  /** Undefined for a duration expression, which only a server evaluates. */
  readonly ms: number | undefined;
  readonly text: string;
}

/** The `@` modifier. */
export type AtModifier =
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "start" | "end" };

interface Placed {
  /** Position in the text, from 0. */
  readonly from: number;
}

interface Shifted {
  readonly offset: DurationLiteral | undefined;
  readonly at: AtModifier | undefined;
}

export interface Selector extends Placed, Shifted {
  readonly kind: "selector";
  /** Position among the selectors of the query, from 0. */
  readonly index: number;
  /** Metric name before or inside the braces; "" when there is none, or only a matcher on `__name__`. */
  readonly name: string;
  readonly matchers: readonly Matcher[];
  readonly edges: "anchored" | "smoothed" | undefined;
}

interface Range extends Placed {
  readonly kind: "range";
  readonly of: Selector;
  readonly range: DurationLiteral;
}

export interface Subquery extends Placed, Shifted {
  readonly kind: "subquery";
  readonly of: Expr;
  readonly range: DurationLiteral;
  readonly step: DurationLiteral | undefined;
}

export interface Call extends Placed {
  readonly kind: "call";
  readonly name: string;
  readonly args: readonly Expr[];
}

export interface Aggregate extends Placed {
  readonly kind: "aggregate";
  readonly op: string;
  readonly without: boolean;
  readonly grouping: readonly string[];
  /** The parameter, where the operator has one, then the operand. */
  readonly args: readonly Expr[];
}

/** Vector matching of a binary operator. */
export interface Matching {
  readonly on: boolean;
  readonly labels: readonly string[];
  /** The "many" side of many-to-one matching. */
  readonly many: "left" | "right" | undefined;
  readonly include: readonly string[];
}

export interface Binary extends Placed {
  readonly kind: "binary";
  readonly op: string;
  readonly bool: boolean;
  readonly matching: Matching | undefined;
  /** The fill modifier as written; "" without one. */
  readonly fill: string;
  readonly left: Expr;
  readonly right: Expr;
}

export type Expr =
  | Selector
  | Range
  | Subquery
  | Call
  | Aggregate
  | Binary
  | (Placed & { readonly kind: "number"; readonly value: number })
  | (Placed & { readonly kind: "string"; readonly value: string })
  | (Placed & { readonly kind: "unary"; readonly sign: "+" | "-"; readonly of: Expr })
  | (Placed & { readonly kind: "paren"; readonly of: Expr });

export const NAME_LABEL = "__name__";

/** All nodes of the tree, parents first. */
export function* walk(expr: Expr): Generator<Expr> {
  yield expr;
  for (const child of childrenOf(expr)) yield* walk(child);
}

function childrenOf(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case "selector":
    case "number":
    case "string":
      return [];
    case "range":
    case "subquery":
    case "unary":
    case "paren":
      return [expr.of];
    case "call":
    case "aggregate":
      return expr.args;
    case "binary":
      return [expr.left, expr.right];
  }
}
