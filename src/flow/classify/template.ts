// Path templates choose the route of a request path. They form a tree of segments, so a path visits every node at most once.
// Empty segments of templates and paths are ignored.

import { Fault } from "#base/fault.ts";

/** The value of the template that the path fits best; undefined when it fits none. */
export type MatchPath = (path: string) => string | undefined;

/** The value of the templates that end at one node. */
interface Target {
  readonly value: string;
  /** A path that fits several templates gets the one with the lowest rank. */
  readonly rank: number;
}

interface TreeNode {
  readonly statics: Map<string, TreeNode>;
  parameter: TreeNode | undefined;
  /** The template that ends here. */
  exact: Target | undefined;
  /** The template that ends here with `*`. */
  open: Target | undefined;
}

/** The segment of a template that any one segment of a path fits. */
const PARAMETER = Symbol("parameter");

interface Template {
  readonly segments: readonly (string | typeof PARAMETER)[];
  readonly open: boolean;
}

/** Throws a Fault that names every malformed template, and templates that match the same paths. */
export function compileTemplates(templates: Readonly<Record<string, string>>): MatchPath {
  const seen = new Map<string, string>();
  const faults: string[] = [];
  const parsed: { readonly template: Template; readonly value: string }[] = [];
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
    parsed.push({ template, value });
    seen.set(shape, text);
  }
  if (faults.length > 0) throw new Fault("INVALID_ARGUMENT", faults.join("; "));
  const root = newNode();
  parsed.sort((a, b) => precedence(a.template, b.template));
  for (const [rank, { template, value }] of parsed.entries())
    insert(root, template, { value, rank });
  return (path) => {
    const query = path.indexOf("?");
    return find(root, path, 0, query < 0 ? path.length : query)?.value;
  };
}

/** The parsed template, or the reason why the text is not one. */
function parseTemplate(text: string): Template | string {
  const segments: (string | typeof PARAMETER)[] = [];
  let open = false;
  for (const segment of text.split("/")) {
    if (segment === "") continue;
    if (open) return `path template "${text}": "*" must be the last segment`;
    if (segment === "*") open = true;
    else segments.push(isParameter(segment) ? PARAMETER : segment);
  }
  return { segments, open };
}

function isParameter(segment: string): boolean {
  return segment.startsWith("{") && segment.endsWith("}");
}

/** The same text for templates that match the same paths. */
function shapeOf({ segments, open }: Template): string {
  const texts = segments.map((segment) => (segment === PARAMETER ? "{}" : segment));
  return [...texts, open ? "*" : ""].join("/");
}

/**
 * More static segments win, then more parameters, then the template without `*`, then the one whose static segments
 * come first. Two templates that are equal by all of this have no path in common.
 */
function precedence(a: Template, b: Template): number {
  const statics = countStatics(b) - countStatics(a);
  const all = b.segments.length - a.segments.length;
  return statics || all || Number(a.open) - Number(b.open) || firstStatic(a, b);
}

function countStatics({ segments }: Template): number {
  return segments.filter((segment) => segment !== PARAMETER).length;
}

/** For two templates of the same length. */
function firstStatic(a: Template, b: Template): number {
  for (const [at, segment] of a.segments.entries()) {
    const other = b.segments[at];
    if ((segment === PARAMETER) !== (other === PARAMETER)) return segment === PARAMETER ? 1 : -1;
  }
  return 0;
}

function newNode(): TreeNode {
  return { statics: new Map(), parameter: undefined, exact: undefined, open: undefined };
}

function insert(root: TreeNode, { segments, open }: Template, target: Target): void {
  let at = root;
  for (const segment of segments) {
    if (segment === PARAMETER) {
      at.parameter ??= newNode();
      at = at.parameter;
    } else {
      const next = at.statics.get(segment) ?? newNode();
      at.statics.set(segment, next);
      at = next;
    }
  }
  if (open) at.open = target;
  else at.exact = target;
}

/** The best template below a node that fits the path from `from` to `end`. */
function find(node: TreeNode, path: string, from: number, end: number): Target | undefined {
  let start = from;
  while (start < end && path.charCodeAt(start) === SLASH) start++;
  if (start >= end) return better(node.exact, node.open);
  let best = node.open;
  const { statics, parameter } = node;
  if (statics.size === 0 && parameter === undefined) return best;
  const slash = path.indexOf("/", start);
  const stop = slash < 0 || slash > end ? end : slash;
  const next = statics.get(path.slice(start, stop));
  if (next !== undefined) best = better(best, find(next, path, stop, end));
  if (parameter !== undefined) best = better(best, find(parameter, path, stop, end));
  return best;
}

const SLASH = 0x2f;

function better(one: Target | undefined, other: Target | undefined): Target | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.rank < other.rank ? one : other;
}
