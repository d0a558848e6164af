// Says what is wrong with a query before anybody asks it: its words, its types, and whether the one who will
// answer knows all of it.

import { Fault } from "#base/fault.ts";
import type { Aggregate, Binary, Call, Expr, Selector } from "./ast.ts";
import { walk } from "./ast.ts";
import { COMPARISONS, SETS } from "./evaluate/binary.ts";
import { compile } from "./evaluate/compile.ts";
import { unknownHere } from "./evaluate/known.ts";
import { AGGREGATIONS, FUNCTIONS, type Signature, type Type } from "./functions.ts";
import { parse } from "./parse.ts";
import type { Dialect } from "./result.ts";
import { place } from "./syntax/complaint.ts";
import { compileMatcher } from "./syntax/matchers.ts";

/** Of one query. Nobody reads more, and a text of many can be made by anybody. */
const MOST_FAULTS = 20;

/** Faults with their places; none when the query is good. */
export function judgeQuery(text: string, dialect: Dialect): readonly string[] {
  let expr: Expr;
  try {
    expr = parse(text);
  } catch (thrown) {
    return [Fault.from(thrown).message];
  }
  const faults: string[] = [];
  let more = 0;
  const say = (from: number, what: string) => {
    if (faults.length < MOST_FAULTS) faults.push(`${place(text, from)}: ${what}`);
    else more += 1;
  };
  const type = new Judge(say).typeOf(expr);
  if (type === "matrix") {
    say(
      expr.from,
      "wanted an instant vector or a number, got a range; a function such as rate makes one of it",
    );
  } else if (type === "string") {
    say(expr.from, "wanted an instant vector or a number, got a string");
  }
  if (dialect === "own") {
    for (const node of walk(expr)) {
      for (const what of unknownHere(node)) {
        say(node.from, `${what} is not known without a Prometheus server (prometheus.address)`);
      }
    }
    if (faults.length === 0) faults.push(...uncompiled(expr));
  }
  if (more > 0) faults.push(`and ${more} more`);
  return faults;
}

/** Arguments that a server judges only when it evaluates them. */
function uncompiled(expr: Expr): readonly string[] {
  try {
    compile(expr);
    return [];
  } catch (thrown) {
    return [Fault.from(thrown).message];
  }
}

const WORDS: Readonly<Record<Type, string>> = {
  scalar: "a number",
  vector: "an instant vector",
  matrix: "a range such as [5m]",
  string: "a string",
};

class Judge {
  readonly #say: (from: number, what: string) => void;

  constructor(say: (from: number, what: string) => void) {
    this.#say = say;
  }

  typeOf(expr: Expr): Type {
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

  #want(what: string, expr: Expr, type: Type): void {
    const got = this.typeOf(expr);
    if (got !== type) this.#say(expr.from, `${what}: wanted ${WORDS[type]}, got ${WORDS[got]}`);
  }

  #numeric(what: string, expr: Expr): "scalar" | "vector" {
    const got = this.typeOf(expr);
    if (got === "scalar" || got === "vector") return got;
    this.#say(expr.from, `${what}: wanted a number or an instant vector, got ${WORDS[got]}`);
    return "vector";
  }

  #selector({ from, name, matchers }: Selector): void {
    // A selector that everything fits would read the whole database.
    let narrow = name !== "";
    for (const matcher of matchers) {
      try {
        narrow = !compileMatcher(matcher)("") || narrow;
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        // The engine quotes the expression with the flags that it runs with.
        const said = why.replace("(?s)", "");
        this.#say(from, `${matcher.name}${matcher.op}: wanted an RE2 expression: ${said}`);
        narrow = true;
      }
    }
    if (!narrow) this.#say(from, "wanted at least one matcher that an empty value does not fit");
  }

  #call({ from, name, args }: Call): Type {
    const known = FUNCTIONS.get(name);
    if (known === undefined) {
      this.#say(from, `wanted a function, got ${name}`);
      return "vector";
    }
    const least = known.args.length - known.optional;
    const most = known.repeats ? Number.POSITIVE_INFINITY : known.args.length;
    if (args.length < least || args.length > most) {
      this.#say(from, `${name}: wanted ${count(known)}, got ${args.length}`);
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

  #aggregate({ from, op, args }: Aggregate): Type {
    const parameter = AGGREGATIONS.get(op);
    const wanted: readonly Type[] = parameter === undefined ? ["vector"] : [parameter, "vector"];
    if (args.length !== wanted.length) {
      this.#say(
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

  #binary(binary: Binary): Type {
    const { op, bool, left, right, from } = binary;
    const [one, two] = [
      this.#numeric(`the left side of ${op}`, left),
      this.#numeric(`the right side of ${op}`, right),
    ];
    const scalars = one === "scalar" && two === "scalar";
    if (bool && !COMPARISONS.has(op)) this.#say(from, `bool: wanted a comparison, got ${op}`);
    if (scalars && !bool && COMPARISONS.has(op)) {
      this.#say(from, `${op}: a comparison of two numbers needs bool`);
    }
    if (SETS.has(op) && (one === "scalar" || two === "scalar")) {
      this.#say(from, `${op}: wanted an instant vector on both sides, got a number`);
    }
    this.#matching(binary, one === "vector" && two === "vector");
    return scalars ? "scalar" : "vector";
  }

  #matching({ op, matching, from }: Binary, vectors: boolean): void {
    if (matching === undefined) return;
    const word = matching.on ? "on" : "ignoring";
    if (!vectors) this.#say(from, `${word}: wanted an instant vector on both sides of ${op}`);
    if (matching.many === undefined) return;
    if (SETS.has(op)) this.#say(from, `group_${matching.many}: not for ${op}`);
    for (const label of matching.on ? matching.include : []) {
      if (matching.labels.includes(label)) {
        this.#say(from, `${label}: wanted in on or in group_${matching.many}, got in both`);
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
