// Tests of label values, as RE2 expressions that must match whole.

import { RE2JS } from "re2js";
import type { Matcher } from "../ast.ts";

type Test = (value: string) => boolean;

/** Throws what the engine says when an expression is not RE2. An absent label is "". */
export function compileMatcher({ op, value }: Matcher): Test {
  switch (op) {
    case "=":
      return (other) => other === value;
    case "!=":
      return (other) => other !== value;
    case "=~":
      return whole(value);
    case "!~": {
      const test = whole(value);
      return (other) => !test(other);
    }
  }
}

function whole(regex: string): Test {
  if (/^[\w|]*$/.test(regex)) {
    const words = new Set(regex.split("|"));
    return (value) => words.has(value);
  }
  const engine = RE2JS.compile(regex, RE2JS.DOTALL);
  return (value) => engine.matches(value);
}
