// A document as a tree that remembers where each part stands in its text, so that every fault can name
// line and column; and the path that names a part (`circuit.components[2].decider`).

/** Both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface TreeEntry {
  readonly key: string;
  readonly keyAt: Position;
  readonly value: Tree;
}

export type Tree =
  | { readonly kind: "map"; readonly at: Position; readonly entries: readonly TreeEntry[] }
  | { readonly kind: "list"; readonly at: Position; readonly items: readonly Tree[] }
  | { readonly kind: "text"; readonly at: Position; readonly value: string }
  /** `source` is the number as written: 64-bit integers do not fit into `value`. */
  | {
      readonly kind: "number";
      readonly at: Position;
      readonly value: number;
      readonly source: string;
    }
  | { readonly kind: "boolean"; readonly at: Position; readonly value: boolean }
  | { readonly kind: "null"; readonly at: Position };

export type Path = readonly (string | number)[];

const PLAIN_KEY = /^[A-Za-z_][\w-]*$/;

/** `a.b[2]`; keys that are not plain words are quoted: `rules["a/b"]`. */
export function formatPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (PLAIN_KEY.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

/** Member of a map by key; undefined when it is absent or null, which mean the same in a document. */
export function member(tree: Tree | undefined, key: string): Tree | undefined {
  if (tree?.kind !== "map") return undefined;
  const value = tree.entries.find((entry) => entry.key === key)?.value;
  return value?.kind === "null" ? undefined : value;
}

/** Where the part at `path` stands, or the innermost part around it that is really there. */
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

/** What stands there, short enough for a message. */
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

export function quote(text: string): string {
  return JSON.stringify(shorten(text));
}

const SHOWN = 80;

function shorten(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}…`;
}

/** The tree as plain data, for free-form parts. Numbers are doubles. */
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
