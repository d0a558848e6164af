// Path templates: which of a few route shapes a request path has. A tree of static segments, because the parameters
// of a template all follow its static segments. Empty segments of templates and paths are ignored.

import { Fault } from "#base/fault.ts";

/** The value of the template that the path fits best; undefined when it fits none. */
export type MatchPath = (path: string) => string | undefined;

interface TreeNode {
  readonly parent: TreeNode | undefined;
  /** Static segments from the root to here. */
  readonly depth: number;
  readonly children: Map<string, TreeNode>;
  /** By number of parameters. */
  readonly exact: Map<number, string>;
  /** Those that end in `*`, most parameters first. */
  readonly open: { readonly parameters: number; readonly value: string }[];
}

interface Template {
  readonly statics: readonly string[];
  readonly parameters: number;
  readonly open: boolean;
}

/** Throws a Fault that names every malformed template, and templates that match the same paths. */
export function compileTemplates(templates: Readonly<Record<string, string>>): MatchPath {
  const root = branch(undefined);
  const seen = new Map<string, string>();
  const faults: string[] = [];
  for (const [text, value] of Object.entries(templates)) {
    const template = parseTemplate(text);
    if (typeof template === "string") {
      faults.push(template);
      continue;
    }
    const shape = shapeOf(template);
    const twin = seen.get(shape);
    if (twin !== undefined)
      faults.push(`path templates "${twin}" and "${text}" match the same paths`);
    else insert(root, template, value);
    seen.set(shape, text);
  }
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  return (path) => match(root, path);
}

/** The parsed template, or the reason why the text is not one. */
function parseTemplate(text: string): Template | string {
  const statics: string[] = [];
  let parameters = 0;
  let open = false;
  for (const segment of text.split("/")) {
    if (segment === "") continue;
    if (open) return `path template "${text}": "*" must be the last segment`;
    if (segment === "*") open = true;
    else if (segment.startsWith("{") && segment.endsWith("}")) parameters++;
    else if (parameters > 0)
      return `path template "${text}": static segments come before parameters`;
    else statics.push(segment);
  }
  return { statics, parameters, open };
}

function shapeOf({ statics, parameters, open }: Template): string {
  return [...statics, ...new Array<string>(parameters).fill("{}"), open ? "*" : ""].join("/");
}

function branch(parent: TreeNode | undefined): TreeNode {
  const depth = parent === undefined ? 0 : parent.depth + 1;
  return { parent, depth, children: new Map(), exact: new Map(), open: [] };
}

function insert(root: TreeNode, { statics, parameters, open }: Template, value: string): void {
  let at = root;
  for (const segment of statics) {
    const next = at.children.get(segment) ?? branch(at);
    at.children.set(segment, next);
    at = next;
  }
  if (open) {
    at.open.push({ parameters, value });
    at.open.sort((a, b) => b.parameters - a.parameters);
  } else {
    at.exact.set(parameters, value);
  }
}

/** More static segments win, then more parameters, then the template without `*`. */
function match(root: TreeNode, path: string): string | undefined {
  const query = path.indexOf("?");
  const end = query < 0 ? path.length : query;
  let at: TreeNode | undefined = root;
  let walking = true;
  let count = 0;
  for (let start = 0; start < end; ) {
    const slash = path.indexOf("/", start);
    const stop = slash < 0 || slash > end ? end : slash;
    if (stop > start) {
      count++;
      const next: TreeNode | undefined = walking
        ? at.children.get(path.slice(start, stop))
        : undefined;
      if (next === undefined) walking = false;
      else at = next;
    }
    start = stop + 1;
  }
  for (; at !== undefined; at = at.parent) {
    const rest = count - at.depth;
    const value = at.exact.get(rest) ?? at.open.find(({ parameters }) => parameters <= rest)?.value;
    if (value !== undefined) return value;
  }
  return undefined;
}
