// A document as a tree whose nodes know their position in the text, so that every finding can give line and
// column; and paths to its parts (`circuit.components[2].decider`).

/** Line and column count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** The start of a text. */
export const START: Position = { line: 1, column: 1 };

export interface TreeEntry {
  readonly key: string;
  readonly keyAt: Position;
  readonly value: Tree;
}

export type Tree =
  | { readonly kind: "map"; readonly at: Position; readonly entries: readonly TreeEntry[] }
  /** `written`: for each item its index in the text, where the tree repeats items of the text. */
  | {
      readonly kind: "list";
      readonly at: Position;
      readonly items: readonly Tree[];
      readonly written?: readonly number[];
    }
  | { readonly kind: "text"; readonly at: Position; readonly value: string }
  /** `source` is the number as written, because a double cannot hold all 64-bit integers. */
  | {
      readonly kind: "number";
      readonly at: Position;
      readonly value: number;
      readonly source: string;
    }
  | { readonly kind: "boolean"; readonly at: Position; readonly value: boolean }
  /** `unwritten`: there is a key and no value behind it, which is rarely meant as null. */
  | { readonly kind: "null"; readonly at: Position; readonly unwritten?: true };

export type Path = readonly (string | number)[];

const PLAIN_KEY = /^[A-Za-z_][\w-]*$/;

/** Formats a path as `a.b[2]`; keys that are not identifiers are quoted: `rules["a/b"]`. */
export function formatPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (PLAIN_KEY.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

/** The value of a key in a map; undefined when it is absent or null, which mean the same in a document. */
export function member(tree: Tree | undefined, key: string): Tree | undefined {
  if (tree?.kind !== "map") return undefined;
  const value = tree.entries.find((entry) => entry.key === key)?.value;
  return value?.kind === "null" ? undefined : value;
}

/** A path in a tree as it is in the text, which differs after lists that repeat items of the text. */
export function writtenPath(tree: Tree, path: Path): Path {
  let here: Tree | undefined = tree;
  return path.map((step) => {
    const around: Tree | undefined = here;
    if (around?.kind === "list" && typeof step === "number") {
      here = around.items[step];
      return around.written?.[step] ?? step;
    }
    here =
      around?.kind === "map" ? around.entries.find(({ key }) => key === step)?.value : undefined;
    return step;
  });
}

/** Position of the part at `path`, or of its innermost ancestor that exists. */
export function locate(tree: Tree, path: Path): Position {
  let at = tree.at;
  let here: Tree | undefined = tree;
  for (const step of path) {
    if (here?.kind === "map") {
      const entry: TreeEntry | undefined = here.entries.find(({ key }) => key === step);
      if (entry === undefined) break;
      at = entry.keyAt;
      here = entry.value;
    } else if (here?.kind === "list" && typeof step === "number") {
      here = here.items[step];
      if (here === undefined) break;
      at = here.at;
    } else break;
  }
  return at;
}

/** Describes a value in a few words for a message. */
export function describe(tree: Tree): string {
  switch (tree.kind) {
    case "map":
      return "an object";
    case "list":
      return "a list";
    case "null":
      return "null";
    case "boolean":
      return `the boolean ${tree.value}`;
    case "number":
      return `the number ${shorten(tree.source)}`;
    case "text":
      return quote(tree.value);
  }
}

/** The kind of a value without its content, for texts that are no policy: whatever they are, messages do not repeat it. */
export function kindOf({ kind }: Tree): string {
  if (kind === "null") return "null";
  return kind === "map" ? "an object" : `a ${kind}`;
}

export function quote(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Characters of a value that a message shows. */
const MAX_SHOWN = 80;

function shorten(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

/** The tree as plain JavaScript data; numbers are doubles. For parts whose form the language does not fix. */
export function plain(tree: Tree): unknown {
  switch (tree.kind) {
    case "map":
      return Object.fromEntries(tree.entries.map(({ key, value }) => [key, plain(value)]));
    case "list":
      return tree.items.map(plain);
    case "null":
      return null;
    case "boolean":
    case "number":
    case "text":
      return tree.value;
  }
}
