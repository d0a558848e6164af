// Checks a Rego module closely enough to refuse what cannot be one (tokens, brackets, package line, order of
// operators and operands, rule heads), and lists the names of its rules. Runs nothing and needs no engine.

interface RegoFault {
  readonly wanted: string;
  readonly got: string;
}

interface RegoCheck {
  /** The first fault only: later ones mostly follow from it. */
  readonly fault: RegoFault | undefined;
  /** Names of the rules that the module defines. */
  readonly names: ReadonlySet<string>;
}

type Kind = "name" | "number" | "text" | "operator" | "open" | "close" | "punctuation";

interface Token {
  readonly kind: Kind;
  readonly text: string;
  readonly line: number;
  /** Number of brackets around it. */
  readonly depth: number;
  /** True for the first token of a line or after a `;`. */
  readonly first: boolean;
}

const TOKEN =
  /(?<space>[ \t\r]+|#[^\n]*)|(?<newline>\n)|(?<text>"(?:[^"\\\n]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*"|`[^`]*`)|(?<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?<name>[A-Za-z_]\w*)|(?<operator>:=|==|!=|<=|>=|[=<>+\-*/%&|])|(?<open>[([{])|(?<close>[)\]}])|(?<punctuation>[,;.:])/y;

const OPENS: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" };

/** Keywords that are not operands. */
const KEYWORDS: ReadonlySet<string> = new Set(
  "as contains default else every if import in not package some with".split(" "),
);
const RESERVED: ReadonlySet<string> = new Set([...KEYWORDS, "true", "false", "null"]);

export function checkRego(source: string): RegoCheck {
  const names = new Set<string>();
  const { tokens, fault } = tokenize(source);
  const found = fault ?? packageFault(tokens) ?? orderFault(tokens) ?? headFault(tokens, names);
  return { fault: found, names };
}

function at({ line }: { readonly line: number }): string {
  return `in line ${line}`;
}

function tokenize(source: string): { readonly tokens: Token[]; readonly fault?: RegoFault } {
  const tokens: Token[] = [];
  const open: string[] = [];
  let line = 1;
  let first = true;
  for (let index = 0; index < source.length; index = TOKEN.lastIndex) {
    TOKEN.lastIndex = index;
    const groups = TOKEN.exec(source)?.groups;
    if (groups === undefined) {
      TOKEN.lastIndex = 0;
      const got = `${JSON.stringify(source.slice(index, index + 10))} ${at({ line })}`;
      return { tokens, fault: { wanted: "a Rego module", got } };
    }
    const [kind, text] = Object.entries(groups).find(([, found]) => found !== undefined) ?? [
      "",
      "",
    ];
    if (kind === "newline") first = true;
    if (kind !== "newline" && kind !== "space") {
      if (kind === "close" && open.pop() !== OPENS[text]) {
        return { tokens, fault: { wanted: "matching brackets", got: `${text} ${at({ line })}` } };
      }
      tokens.push({ kind: kind as Kind, text, line, depth: open.length, first });
      if (kind === "open") open.push(text);
      first = text === ";";
    }
    line += text.split("\n").length - 1;
  }
  if (open.length === 0) return { tokens };
  return { tokens, fault: { wanted: "matching brackets", got: `an unclosed ${open.at(-1)}` } };
}

function packageFault([word, name]: readonly Token[]): RegoFault | undefined {
  if (word?.text === "package" && name?.kind === "name" && name.line === word.line) return;
  return {
    wanted: "a Rego module with a package line first",
    got: word ? `${word.text} ${at(word)}` : "nothing",
  };
}

/** Operands and operators must alternate. */
function orderFault(tokens: readonly Token[]): RegoFault | undefined {
  for (const [index, token] of tokens.entries()) {
    const before = tokens[index - 1];
    const after = tokens[index + 1];
    const got = `${token.text} ${at(token)}`;
    if (token.kind === "operator") {
      const negative = token.text === "-" && after?.kind === "number";
      if (!negative && !endsOperand(before))
        return { wanted: "an operand before the operator", got };
      if (!startsOperand(after)) return { wanted: "an operand after the operator", got };
    } else if (before !== undefined && before.line === token.line && areAdjacent(before, token)) {
      return { wanted: `an operator after ${before.text}`, got };
    }
  }
  return undefined;
}

function endsOperand(token: Token | undefined): boolean {
  if (token?.kind === "name") return !KEYWORDS.has(token.text) || token.text === "else";
  return token !== undefined && ["number", "text", "close"].includes(token.kind);
}

function startsOperand(token: Token | undefined): boolean {
  if (token?.kind === "operator") return token.text === "-";
  return token !== undefined && ["number", "text", "open", "name"].includes(token.kind);
}

/** True for two operands without an operator in between. A `}` may end a body, after which anything may follow. */
function areAdjacent(before: Token, token: Token): boolean {
  if (!endsOperand(before) || before.text === "}" || before.text === "else") return false;
  if (token.kind === "number" || token.kind === "text") return true;
  return token.kind === "name" && !KEYWORDS.has(token.text);
}

/** Every line outside brackets that does not continue the one before must start an import or a rule. */
function headFault(tokens: readonly Token[], names: Set<string>): RegoFault | undefined {
  for (const [index, token] of tokens.entries()) {
    if (!token.first || token.depth > 0 || index === 0) continue;
    const before = tokens[index - 1];
    const continues =
      token.kind === "operator" ||
      token.kind === "open" ||
      token.kind === "close" ||
      token.text === "else" ||
      before?.kind === "operator" ||
      before?.text === "if";
    if (continues || token.text === "import") continue;
    const start = token.text === "default" ? index + 1 : index;
    const [name, next, then] = tokens.slice(start, start + 3);
    const got = `${token.text} ${at(token)}`;
    if (name?.kind !== "name" || RESERVED.has(name.text)) return { wanted: "a rule", got };
    const head = next?.kind === "operator" || next?.kind === "open" || next?.text === ".";
    if (!head && next?.text !== "if" && next?.text !== "contains") {
      return { wanted: `a value or a body for ${name.text}`, got };
    }
    if (next?.text === "{" && then?.text === "}") {
      return { wanted: `a body for ${name.text} that is not empty`, got };
    }
    names.add(name.text);
  }
  return undefined;
}
