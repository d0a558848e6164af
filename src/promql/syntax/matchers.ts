// Compiles label matchers to predicates. RE2 expressions must match the whole value.

import { RE2JS } from "re2js";
import type { Matcher } from "./ast.ts";

type Test = (value: string) => boolean;

/** Throws when an expression is not valid RE2. An absent label has the value "". */
export function compileMatcher({ op, value }: Matcher): Test {
  switch (op) {
    case "=":
      return (other) => other === value;
    case "!=":
      return (other) => other !== value;
    case "=~":
      return wholeMatch(value);
    case "!~": {
      const test = wholeMatch(value);
      return (other) => !test(other);
    }
  }
}

function wholeMatch(regex: string): Test {
  if (/^[\w|]*$/.test(regex)) {
    const words = new Set(regex.split("|"));
    return (value) => words.has(value);
  }
  const engine = RE2JS.compile(regex, RE2JS.DOTALL);
  return (value) => engine.matches(value);
}
