// A query as a tree. Modifiers sit on what they modify, names in matchers are plain, and a number's sign is
// part of it, so that two texts that mean the same query have the same tree.

export type MatchOp = "=" | "!=" | "=~" | "!~";

export interface Matcher {
  readonly name: string;
  readonly op: MatchOp;
  readonly value: string;
}

/** A length of time as it stands in the query. */
export interface Span {
  /** Undefined where it is an expression that only the server can compute. */
  readonly ms: number | undefined;
  readonly text: string;
}

/** The `@` modifier. */
export type Moment =
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "start" | "end" };

interface Placed {
  /** Position in the text, from 0. */
  readonly from: number;
}

interface Shifted {
  readonly offset: Span | undefined;
  readonly at: Moment | undefined;
}

export interface Selector extends Placed, Shifted {
  readonly kind: "selector";
  /** Before or inside the braces; "" where `__name__` is matched or nothing is. */
  readonly name: string;
  readonly matchers: readonly Matcher[];
  readonly edges: "anchored" | "smoothed" | undefined;
}

interface Range extends Placed {
  readonly kind: "range";
  readonly of: Selector;
  readonly range: Span;
}

export interface Subquery extends Placed, Shifted {
  readonly kind: "subquery";
  readonly of: Expr;
  readonly range: Span;
  readonly step: Span | undefined;
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

/** How samples of two vectors find each other. */
export interface Matching {
  readonly on: boolean;
  readonly labels: readonly string[];
  /** The side that may have several samples for one of the other. */
  readonly many: "left" | "right" | undefined;
  readonly include: readonly string[];
}

export interface Binary extends Placed {
  readonly kind: "binary";
  readonly op: string;
  readonly bool: boolean;
  readonly matching: Matching | undefined;
  /** As written. */
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

/** Every node, parents first. */
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
