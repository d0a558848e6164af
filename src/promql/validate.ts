// Validates a query before it is used: its syntax, its types, and whether what will answer it supports all of it.

import { Fault } from "#base/fault.ts";
import { COMPARISONS, SETS } from "./evaluate/binary.ts";
import { compile } from "./evaluate/compile.ts";
import { unsupportedIn } from "./evaluate/supported.ts";
import { AGGREGATIONS, FUNCTIONS, type Signature, type ValueType } from "./functions.ts";
import type { Dialect } from "./result.ts";
import type { Aggregate, Binary, Call, Expr, Selector } from "./syntax/ast.ts";
import { walk } from "./syntax/ast.ts";
import { compileMatcher } from "./syntax/matchers.ts";
import { parse } from "./syntax/parse.ts";
import { positionText } from "./syntax/syntax-error.ts";

/** Faults reported for one query; hostile input could produce arbitrarily many. */
const MAX_FAULTS = 20;

/** All faults with their positions; empty when the query is valid. */
export function validateQuery(text: string, dialect: Dialect): readonly string[] {
  const expr = parsed(text);
  return typeof expr === "string" ? [expr] : validateExpr(text, expr, dialect);
}

/** The tree of a valid query. @throws Fault INVALID_ARGUMENT with everything that `validateQuery` finds. */
export function parseValid(text: string, dialect: Dialect): Expr {
  const expr = parsed(text);
  const faults = typeof expr === "string" ? [expr] : validateExpr(text, expr, dialect);
  if (typeof expr === "string" || faults.length > 0)
    throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  return expr;
}

/** The tree, or what is wrong with the syntax. */
function parsed(text: string): Expr | string {
  try {
    return parse(text);
  } catch (thrown) {
    return Fault.from(thrown).message;
  }
}

function validateExpr(text: string, expr: Expr, dialect: Dialect): readonly string[] {
  const faults: string[] = [];
  let more = 0;
  const report = (from: number, what: string) => {
    if (faults.length < MAX_FAULTS) faults.push(`${positionText(text, from)}: ${what}`);
    else more += 1;
  };
  const type = new TypeChecker(report).typeOf(expr);
  if (type === "matrix") {
    report(
      expr.from,
      "wanted an instant vector or a number, got a range; a function such as rate makes one of it",
    );
  } else if (type === "string") {
    report(expr.from, "wanted an instant vector or a number, got a string");
  }
  if (dialect === "own") {
    for (const node of walk(expr)) {
      for (const what of unsupportedIn(node)) {
        report(
          node.from,
          `${what} is not supported without a Prometheus server (prometheus.address)`,
        );
      }
    }
    if (faults.length === 0) faults.push(...compileFaults(expr));
  }
  if (more > 0) faults.push(`and ${more} more`);
  return faults;
}

/** Faults of constant arguments, which a server would find only at evaluation. */
function compileFaults(expr: Expr): readonly string[] {
  try {
    compile(expr);
    return [];
  } catch (thrown) {
    return [Fault.from(thrown).message];
  }
}

const TYPE_NAMES: Readonly<Record<ValueType, string>> = {
  scalar: "a number",
  vector: "an instant vector",
  matrix: "a range such as [5m]",
  string: "a string",
};

class TypeChecker {
  readonly #report: (from: number, what: string) => void;

  constructor(report: (from: number, what: string) => void) {
    this.#report = report;
  }

  typeOf(expr: Expr): ValueType {
    switch (expr.kind) {
      case "number":
        return "scalar";
      case "string":
        return "string";
      case "selector":
        this.#selector(expr);
        return "vector";
      case "range":
        this.#selector(expr.of);
        return "matrix";
      case "subquery":
        this.#want("a subquery's", expr.of, "vector");
        return "matrix";
      case "paren":
        return this.typeOf(expr.of);
      case "unary":
        return this.#numeric(`the operand of ${expr.sign}`, expr.of);
      case "call":
        return this.#call(expr);
      case "aggregate":
        return this.#aggregate(expr);
      case "binary":
        return this.#binary(expr);
    }
  }

  #want(what: string, expr: Expr, type: ValueType): void {
    const got = this.typeOf(expr);
    if (got !== type)
      this.#report(expr.from, `${what}: wanted ${TYPE_NAMES[type]}, got ${TYPE_NAMES[got]}`);
  }

  #numeric(what: string, expr: Expr): "scalar" | "vector" {
    const got = this.typeOf(expr);
    if (got === "scalar" || got === "vector") return got;
    this.#report(
      expr.from,
      `${what}: wanted a number or an instant vector, got ${TYPE_NAMES[got]}`,
    );
    return "vector";
  }

  #selector({ from, name, matchers }: Selector): void {
    // A selector that matches everything would read the whole database.
    let narrow = name !== "";
    for (const matcher of matchers) {
      try {
        narrow = !compileMatcher(matcher)("") || narrow;
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        // The engine quotes the expression with its own flags.
        const said = why.replace("(?s)", "");
        this.#report(from, `${matcher.name}${matcher.op}: wanted an RE2 expression: ${said}`);
        narrow = true;
      }
    }
    if (!narrow) this.#report(from, "wanted at least one matcher that an empty value does not fit");
  }

  #call({ from, name, args }: Call): ValueType {
    const known = FUNCTIONS.get(name);
    if (known === undefined) {
      this.#report(from, `wanted a function, got ${name}`);
      return "vector";
    }
    const least = known.args.length - known.optional;
    const most = known.repeats ? Number.POSITIVE_INFINITY : known.args.length;
    if (args.length < least || args.length > most) {
      this.#report(from, `${name}: wanted ${count(known)}, got ${args.length}`);
      return known.returns;
    }
    for (const [at, arg] of args.entries()) {
      this.#want(
        `argument ${at + 1} of ${name}`,
        arg,
        known.args[at] ?? known.args.at(-1) ?? "vector",
      );
    }
    return known.returns;
  }

  #aggregate({ from, op, args }: Aggregate): ValueType {
    const parameter = AGGREGATIONS.get(op);
    const wanted: readonly ValueType[] =
      parameter === undefined ? ["vector"] : [parameter, "vector"];
    if (args.length !== wanted.length) {
      this.#report(
        from,
        `${op}: wanted ${wanted.length} argument${wanted.length > 1 ? "s" : ""}, got ${args.length}`,
      );
      return "vector";
    }
    for (const [at, type] of wanted.entries()) {
      const arg = args[at];
      if (arg !== undefined) this.#want(`argument ${at + 1} of ${op}`, arg, type);
    }
    return "vector";
  }

  #binary(binary: Binary): ValueType {
    const { op, bool, left, right, from } = binary;
    const [one, two] = [
      this.#numeric(`the left side of ${op}`, left),
      this.#numeric(`the right side of ${op}`, right),
    ];
    const scalars = one === "scalar" && two === "scalar";
    if (bool && !COMPARISONS.has(op)) this.#report(from, `bool: wanted a comparison, got ${op}`);
    if (scalars && !bool && COMPARISONS.has(op)) {
      this.#report(from, `${op}: a comparison of two numbers needs bool`);
    }
    if (SETS.has(op) && (one === "scalar" || two === "scalar")) {
      this.#report(from, `${op}: wanted an instant vector on both sides, got a number`);
    }
    this.#matching(binary, one === "vector" && two === "vector");
    return scalars ? "scalar" : "vector";
  }

  #matching({ op, matching, from }: Binary, vectors: boolean): void {
    if (matching === undefined) return;
    const word = matching.on ? "on" : "ignoring";
    if (!vectors) this.#report(from, `${word}: wanted an instant vector on both sides of ${op}`);
    if (matching.many === undefined) return;
    if (SETS.has(op)) this.#report(from, `group_${matching.many}: not for ${op}`);
    for (const label of matching.on ? matching.include : []) {
      if (matching.labels.includes(label)) {
        this.#report(from, `${label}: wanted in on or in group_${matching.many}, got in both`);
      }
    }
  }
}

function count({ args, optional, repeats }: Signature): string {
  const least = args.length - optional;
  if (repeats) return `at least ${least} arguments`;
  const most = args.length;
  if (least === most) return `${most} argument${most === 1 ? "" : "s"}`;
  return `${least} to ${most} arguments`;
}
