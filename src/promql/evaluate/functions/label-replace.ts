// label_replace: sets a label from another one by an expression that must match its whole value.

import { RE2JS } from "re2js";
import type { Labels } from "../../result.ts";
import { change } from "../labels.ts";
import { failed, mapped, type Vector } from "../value.ts";

const LABEL = /^[a-zA-Z_]\w*$/;
const REFERENCE = /\$(?:(\w+)|\{(\w+)\}|(\$))/g;

export function labelReplace(
  target: string,
  template: string,
  source: string,
  expression: string,
): (vector: Vector) => Vector {
  if (!LABEL.test(target)) throw failed(`label_replace: wanted a name of a label, got "${target}"`);
  const engine = compileEngine(expression);
  const groups = engine.groupCount();
  const named = engine.namedGroups();
  const relabel = (labels: Labels): Labels => {
    const found = engine.matcher(labels[source] ?? "");
    if (!found.matches()) return labels;
    const value = template.replace(REFERENCE, (_, bare?: string, braced?: string) => {
      const name = bare ?? braced;
      if (name === undefined) return "$";
      const at = /^\d+$/.test(name) ? Number(name) : (named[name] ?? -1);
      return at >= 0 && at <= groups ? (found.group(at) ?? "") : "";
    });
    return change(labels, { [target]: value });
  };
  return (vector) => mapped(vector, relabel, (value) => value);
}

function compileEngine(expression: string): RE2JS {
  try {
    return RE2JS.compile(expression, RE2JS.DOTALL);
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    throw failed(`label_replace: wanted an RE2 expression: ${why}`);
  }
}
