// Prints a query in its canonical form.

import type {
  Aggregate,
  AtModifier,
  Binary,
  DurationLiteral,
  Expr,
  Matcher,
  Selector,
  Subquery,
} from "./ast.ts";
import { printDurationLiteral, printNumber, quote } from "./literals.ts";

export function print(expr: Expr): string {
  switch (expr.kind) {
    case "number":
      return printNumber(expr.value);
    case "string":
      return quote(expr.value);
    case "paren":
      return `(${print(expr.of)})`;
    case "unary":
      return `${expr.sign}${print(expr.of)}`;
    case "selector":
      return `${selected(expr)}${modifiers(expr)}${edges(expr)}`;
    case "range":
      return `${selected(expr.of)}[${span(expr.range)}]${modifiers(expr.of)}${edges(expr.of)}`;
    case "subquery":
      return `${print(expr.of)}[${span(expr.range)}:${expr.step === undefined ? "" : span(expr.step)}]${modifiers(expr)}`;
    case "call":
      return `${expr.name}(${expr.args.map(print).join(", ")})`;
    case "aggregate":
      return aggregate(expr);
    case "binary":
      return binary(expr);
  }
}

function span({ ms, text }: DurationLiteral): string {
  return ms === undefined || !Number.isInteger(ms) ? text : printDurationLiteral(ms);
}

const METRIC = /^[a-zA-Z_:][\w:]*$/;
const LABEL = /^[a-zA-Z_]\w*$/;
/** Names that would be parsed as keywords or numbers: as a metric name, and in a list of labels. */
const NO_METRIC = /^(?:inf|nan|atan2|bool|ignoring|offset|on|group_(?:left|right))$/i;
const NOT_LISTED = /^(?:inf|nan)$/i;

function label(name: string): string {
  return LABEL.test(name) ? name : quote(name);
}

function selected({ name, matchers }: Selector): string {
  const plain = METRIC.test(name) && !NO_METRIC.test(name);
  const inside = matchers.map(matcher).sort(byCodeUnits);
  if (!plain && name !== "") inside.unshift(quote(name));
  return `${plain ? name : ""}${inside.length > 0 ? `{${inside.join(",")}}` : ""}`;
}

function matcher({ name, op, value }: Matcher): string {
  return `${label(name)}${op}${quote(value)}`;
}

function byCodeUnits(one: string, two: string): number {
  return one < two ? -1 : one > two ? 1 : 0;
}

function modifiers({ at, offset }: Pick<Subquery, "at" | "offset">): string {
  const moment = at === undefined ? "" : ` @ ${printMoment(at)}`;
  return `${moment}${offset === undefined ? "" : ` offset ${span(offset)}`}`;
}

function printMoment(at: AtModifier): string {
  return at.kind === "time" ? at.seconds.toFixed(3) : `${at.kind}()`;
}

function edges(selector: Selector): string {
  return selector.edges === undefined ? "" : ` ${selector.edges}`;
}

function list(names: readonly string[]): string {
  const each = (name: string) => (NOT_LISTED.test(name) ? quote(name) : label(name));
  return `(${names.map(each).join(", ")})`;
}

function aggregate({ op, without, grouping, args }: Aggregate): string {
  const kept = grouping.length > 0 ? ` by ${list(grouping)} ` : "";
  const by = without ? ` without ${list(grouping)} ` : kept;
  return `${op}${by}(${args.map(print).join(", ")})`;
}

function binary({ op, bool, matching, fill, left, right }: Binary): string {
  let words = `${op}${bool ? " bool" : ""}`;
  if (matching !== undefined) {
    const { on, labels, many, include } = matching;
    words += ` ${on ? "on" : "ignoring"} ${list(labels)}`;
    if (many !== undefined) words += ` group_${many} ${list(include)}`;
  }
  if (fill !== "") words += ` ${fill}`;
  return `${print(left)} ${words} ${print(right)}`;
}
