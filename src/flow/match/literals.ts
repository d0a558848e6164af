// Compiles regular expressions that are alternatives of (anchored) literals, as most of them are, to comparisons.

export type Comparison = (value: string) => boolean;

/** A literal, and whether the value must start or end there. */
interface Literal {
  readonly text: string;
  readonly start: boolean;
  readonly end: boolean;
}

/** With more comparisons, the engine is as fast. */
const MAX_COMPARISONS = 8;

/** Undefined for expressions that are not just alternatives of (anchored) literals. */
export function compileLiterals(regex: string): Comparison | undefined {
  const alternatives = parseAlternatives(regex);
  if (alternatives === undefined) return undefined;
  const [only] = alternatives;
  if (only !== undefined && alternatives.length === 1) return compileLiteral(only);
  if (alternatives.every(({ start, end }) => start && end)) {
    const set = new Set(alternatives.map(({ text }) => text));
    return (value) => set.has(value);
  }
  if (alternatives.length > MAX_COMPARISONS) return undefined;
  const tests = alternatives.map(compileLiteral);
  return (value) => {
    for (const test of tests) if (test(value)) return true;
    return false;
  };
}

function compileLiteral({ text, start, end }: Literal): Comparison {
  if (start && end) return (value) => value === text;
  if (start) return (value) => value.startsWith(text);
  if (end) return (value) => value.endsWith(text);
  return (value) => value.includes(text);
}

/** `^?(literal|literal…)$?`, the group with or without `?:`, or the same without a group. */
const GROUPED = /^(\^?)\((?:\?:)?((?:[^()\\]|\\.)*)\)(\$?)$/s;
const ANCHORED = /^(\^?)((?:[^$\\]|\\.)*)(\$?)$/s;

function parseAlternatives(regex: string): readonly Literal[] | undefined {
  // A lone surrogate would match inside characters, but the engine matches whole ones.
  if (!regex.isWellFormed()) return undefined;
  const group = GROUPED.exec(regex);
  if (group !== null) {
    const [, start = "", body = "", end = ""] = group;
    return collect(body, (part) => literal(part, start !== "", end !== ""));
  }
  return collect(regex, (part) => {
    const [, start = "", body, end = ""] = ANCHORED.exec(part) ?? [];
    return body === undefined ? undefined : literal(body, start !== "", end !== "");
  });
}

function collect(
  body: string,
  parse: (part: string) => Literal | undefined,
): readonly Literal[] | undefined {
  const literals: Literal[] = [];
  for (const part of splitBars(body)) {
    const parsed = parse(part);
    if (parsed === undefined) return undefined;
    literals.push(parsed);
  }
  return literals;
}

/** Splits at `|`, but not at `\|`. */
function splitBars(body: string): readonly string[] {
  const parts: string[] = [];
  let start = 0;
  for (let at = 0; at < body.length; at++) {
    if (body[at] === "\\") at++;
    else if (body[at] === "|") {
      parts.push(body.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(body.slice(start));
  return parts;
}

/** Plain characters and escaped ASCII punctuation; letters behind a backslash are classes. */
const PLAIN = /^(?:[^\\.+*?()|[\]{}^$]|\\[!-/:-@[-`{-~])*$/;

function literal(body: string, start: boolean, end: boolean): Literal | undefined {
  if (!PLAIN.test(body)) return undefined;
  return { text: body.replace(/\\(.)/gs, "$1"), start, end };
}
