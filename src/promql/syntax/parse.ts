// Parses a query into its syntax tree with the grammar of Prometheus itself, so that every query that a server accepts is
// accepted here.

import type { SyntaxNode } from "@lezer/common";
import { FUNCTIONS } from "../functions.ts";
import type {
  Aggregate,
  AtModifier,
  DurationLiteral,
  Expr,
  Matcher,
  Matching,
  MatchOp,
} from "./ast.ts";
import { NAME_LABEL } from "./ast.ts";
import { childrenOf, onlyChild, parseSyntax } from "./grammar.ts";
import { parseDurationLiteral, parseNumber, unquote } from "./literals.ts";
import { bindOperators, type Infix, type Item } from "./operators.ts";
import { faultAt } from "./syntax-error.ts";

/** Throws INVALID_ARGUMENT with the position, what was wanted and what was got. Types are not checked here. */
export function parse(text: string): Expr {
  return new Reader(text).expr(parseSyntax(text, [...FUNCTIONS.keys()]));
}

class Reader {
  readonly #text: string;
  /** Number of selectors so far. */
  #selectors = 0;

  constructor(text: string) {
    this.#text = text;
  }

  expr(node: SyntaxNode): Expr {
    const items: Item[] = [];
    this.#flatten(node, items);
    return bindOperators(items);
  }

  #flatten(node: SyntaxNode, items: Item[]): void {
    const [first = node, ...rest] = childrenOf(node);
    switch (node.name) {
      case "BinaryExpr":
        this.#flatten(first, items);
        items.push({ kind: "infix", infix: this.#infix(rest.slice(0, -1)) });
        this.#flatten(rest.at(-1) ?? node, items);
        return;
      case "UnaryExpr":
        items.push(this.#sign(first));
        this.#flatten(rest[0] ?? node, items);
        return;
      case "NumberDurationLiteral":
        this.#number(node, items);
        return;
      case "OffsetExpr":
      case "StepInvariantExpr":
      case "MatrixSelector":
      case "SubqueryExpr":
      case "AnchoredExpr":
      case "SmoothedExpr":
        this.#flatten(first, items);
        items.push({ kind: "postfix", bind: this.#postfix(node, rest) });
        return;
      default:
        items.push({ kind: "operand", expr: this.#operand(node) });
    }
  }

  #sign({ from, to }: SyntaxNode): Item {
    return { kind: "sign", sign: this.#text.slice(from, to) === "-" ? "-" : "+", from };
  }

  #number(node: SyntaxNode, items: Item[]): void {
    const text = this.#of(node);
    const [, sign = "", digits = ""] = /^([-+]?)\s*(.*)$/s.exec(text) ?? [];
    if (sign !== "") items.push({ kind: "sign", sign: sign === "-" ? "-" : "+", from: node.from });
    const value = parseNumber(digits);
    if (Number.isNaN(value) && !/^nan$/i.test(digits)) {
      throw this.#fault(node, `wanted a number, got ${digits}`);
    }
    items.push({ kind: "operand", expr: { kind: "number", from: node.from, value } });
  }

  #infix(nodes: readonly SyntaxNode[]): Infix {
    const [op, ...modifiers] = nodes;
    const named = (name: string) => modifiers.find((node) => node.name === name);
    const matching = named("MatchingModifierClause");
    const fill = named("FillModifier");
    return {
      from: op?.from ?? 0,
      op: op === undefined ? "" : this.#of(op).toLowerCase(),
      bool: named("BoolModifier") !== undefined,
      matching: matching === undefined ? undefined : this.#matching(matching),
      fill: fill === undefined ? "" : this.#of(fill),
    };
  }

  #matching(node: SyntaxNode): Matching | undefined {
    const all = childrenOf(node);
    const [labels = [], include = []] = all
      .filter(({ name }) => name === "GroupingLabels")
      .map((each) => this.#labels(each));
    const side = all.find(({ name }) => name === "GroupLeft" || name === "GroupRight");
    const many = side === undefined ? undefined : side.name === "GroupLeft" ? "left" : "right";
    const on = all[0]?.name === "On";
    // Ignoring no labels is the default.
    if (!on && labels.length === 0 && many === undefined) return undefined;
    return { on, labels, many, include };
  }

  #labels(node: SyntaxNode): readonly string[] {
    return childrenOf(node).map((each) =>
      each.name === "QuotedLabelName" ? this.#string(onlyChild(each)) : this.#of(each),
    );
  }

  #postfix(node: SyntaxNode, rest: readonly SyntaxNode[]): (expr: Expr) => Expr {
    const [one, two] = rest;
    switch (node.name) {
      case "MatrixSelector": {
        const range = this.#length(one ?? node);
        return (expr) => this.#range(node, expr, range);
      }
      case "SubqueryExpr": {
        const range = this.#length(one ?? node);
        const step = two === undefined ? undefined : this.#length(two);
        return (of) => ({
          kind: "subquery",
          from: of.from,
          of,
          range,
          step,
          offset: undefined,
          at: undefined,
        });
      }
      case "OffsetExpr": {
        const offset = this.#span(two ?? node);
        return (expr) => this.#shift(node, expr, "offset", { offset });
      }
      case "StepInvariantExpr": {
        const at = this.#moment(two ?? node);
        return (expr) => this.#shift(node, expr, "at", { at });
      }
      default: {
        const edges = node.name === "AnchoredExpr" ? "anchored" : "smoothed";
        return (expr) => this.#edges(node, expr, edges);
      }
    }
  }

  #range(node: SyntaxNode, of: Expr, range: DurationLiteral): Expr {
    if (of.kind !== "selector")
      throw this.#fault(node, `a range [${range.text}] must follow a selector`);
    if (of.offset !== undefined || of.at !== undefined || of.edges !== undefined) {
      throw this.#fault(node, `a range [${range.text}] must come before the selector's modifiers`);
    }
    return { kind: "range", from: of.from, of, range };
  }

  #shift(
    node: SyntaxNode,
    expr: Expr,
    key: "offset" | "at",
    value: { readonly offset: DurationLiteral } | { readonly at: AtModifier },
  ): Expr {
    if (expr.kind === "range") {
      const of = this.#shift(node, expr.of, key, value);
      return of.kind === "selector" ? { ...expr, of } : expr;
    }
    const word = key === "at" ? "@" : "offset";
    if (expr.kind !== "selector" && expr.kind !== "subquery") {
      throw this.#fault(node, `${word} must follow a selector, a range or a subquery`);
    }
    if (expr[key] !== undefined) throw this.#fault(node, `wanted one ${word}, got two`);
    return { ...expr, ...value };
  }

  #edges(node: SyntaxNode, expr: Expr, edges: "anchored" | "smoothed"): Expr {
    if (expr.kind === "range") return { ...expr, of: { ...expr.of, edges } };
    if (expr.kind === "selector") return { ...expr, edges };
    throw this.#fault(node, `${edges} must follow a selector or a range`);
  }

  #moment(node: SyntaxNode): AtModifier {
    const [preprocessor] = childrenOf(node);
    if (preprocessor !== undefined) {
      return { kind: preprocessor.name === "AtStart" ? "start" : "end" };
    }
    const [, sign = "", digits = ""] = /^([-+]?)\s*(.*)$/s.exec(this.#of(node)) ?? [];
    const seconds = parseNumber(digits);
    if (!Number.isFinite(seconds)) throw this.#fault(node, `wanted seconds after @, got ${digits}`);
    return { kind: "time", seconds: sign === "-" ? -seconds : seconds };
  }

  /** A duration above 0. */
  #length(node: SyntaxNode): DurationLiteral {
    const span = this.#span(node);
    if (span.ms !== undefined && !(span.ms > 0)) {
      throw this.#fault(node, `wanted a duration above 0, got ${span.text}`);
    }
    return span;
  }

  /** A duration; numbers without a unit are seconds. */
  #span(node: SyntaxNode): DurationLiteral {
    const text = this.#of(node);
    const [, sign, digits = ""] = /^([-+]?)\s*([\w.]+)$/.exec(text) ?? [];
    const ms =
      digits === "" ? undefined : (parseDurationLiteral(digits) ?? parseNumber(digits) * 1000);
    if (ms !== undefined && !Number.isFinite(ms)) {
      // Not a duration expression, which would not have matched the pattern.
      throw this.#fault(node, `wanted a duration such as 5m, got ${text}`);
    }
    return { ms: ms === undefined ? undefined : sign === "-" ? -ms : ms, text };
  }

  #operand(node: SyntaxNode): Expr {
    const { from } = node;
    switch (node.name) {
      case "VectorSelector":
        return this.#selector(node);
      case "ParenExpr":
        return { kind: "paren", from, of: this.expr(onlyChild(node)) };
      case "StringLiteral":
        return { kind: "string", from, value: this.#string(node) };
      case "FunctionCall": {
        const [name, body = node] = childrenOf(node);
        const called = name === undefined ? "" : this.#of(name);
        return { kind: "call", from, name: called, args: this.#args(body) };
      }
      case "AggregateExpr":
        return this.#aggregate(node);
      default:
        throw this.#fault(node, `wanted an expression, got ${this.#of(node)}`);
    }
  }

  #args(body: SyntaxNode): readonly Expr[] {
    return childrenOf(body).map((node) => this.expr(node));
  }

  #aggregate(node: SyntaxNode): Aggregate {
    const all = childrenOf(node);
    const named = (name: string) => all.find((each) => each.name === name);
    const modifier = named("AggregateModifier");
    const [word, labels] = modifier === undefined ? [] : childrenOf(modifier);
    return {
      kind: "aggregate",
      from: node.from,
      op: this.#of(all[0] ?? node).toLowerCase(),
      without: word?.name === "Without",
      grouping: labels === undefined ? [] : this.#labels(labels),
      args: this.#args(named("FunctionCallBody") ?? node),
    };
  }

  #selector(node: SyntaxNode): Expr {
    const all = childrenOf(node);
    let name = all[0]?.name === "Identifier" ? this.#of(all[0]) : "";
    const matchers: Matcher[] = [];
    for (const each of childrenOf(all.find((part) => part.name === "LabelMatchers") ?? node)) {
      if (each.name === "Identifier") continue;
      const [left = each, op, value] = childrenOf(each);
      if (each.name === "QuotedLabelName") {
        if (name !== "") throw this.#fault(each, "wanted one name of the metric, got two");
        name = this.#string(left);
      } else if (op !== undefined && value !== undefined) {
        const label =
          left.name === "QuotedLabelName" ? this.#string(onlyChild(left)) : this.#of(left);
        matchers.push({ name: label, op: this.#matchOp(op), value: this.#string(value) });
      }
    }
    if (name !== "" && matchers.some((matcher) => matcher.name === NAME_LABEL)) {
      throw this.#fault(node, `wanted one name of the metric, got ${name} and ${NAME_LABEL}`);
    }
    const modifiers = { offset: undefined, at: undefined, edges: undefined };
    return {
      kind: "selector",
      index: this.#selectors++,
      from: node.from,
      name,
      matchers,
      ...modifiers,
    };
  }

  #matchOp(node: SyntaxNode): MatchOp {
    const text = this.#of(node);
    return text === "!=" || text === "=~" || text === "!~" ? text : "=";
  }

  #string(node: SyntaxNode): string {
    const text = unquote(this.#of(node));
    if (typeof text !== "string") throw this.#fault(node, text.why);
    return text;
  }

  #of({ from, to }: SyntaxNode): string {
    return this.#text.slice(from, to);
  }

  #fault({ from }: SyntaxNode, what: string): Error {
    return faultAt(this.#text, from, what);
  }
}
