// Reads files of dynamic configuration, and checks what is in them: which of its keys no component of a policy reads, and which values have a form
// that their components cannot read. The compiler, the controller and the simulation all use these checks; they
// differ in what they do with what it finds.

import { nearest } from "#base/text/spelling.ts";
import { overridesOf, valueAt } from "#circuit/overrides.ts";
import { overrideWarnings, pathOf } from "./compile/port-warnings.ts";
import type { CompiledPolicy, JsonObject } from "./compiled.ts";
import type { Report } from "./document/finding.ts";
import { parse } from "./document/read.ts";
import {
  describe,
  formatPath,
  kindOf,
  locate,
  member,
  type Path,
  plain,
  quote,
  START,
  type Tree,
} from "./document/tree.ts";
import type { DynamicForm } from "./language/field.ts";
import { type Policy, policy } from "./language/policy.ts";
import { visitMessages } from "./walk.ts";

/** The keys that components read, each with the forms in which they read it. */
export type DynamicKeys = ReadonlyMap<string, ReadonlySet<DynamicForm>>;

/** A member of a dynamic configuration that no component reads. */
export interface UnreadKey {
  /** The member's place, from the outermost key inwards. */
  readonly path: readonly string[];
  /** The same as one key: parts joined by dots. */
  readonly key: string;
  /** A similar key that a component reads. */
  readonly near: string | undefined;
}

/** A value that no component which reads it can use. */
export interface UnfitValue {
  readonly key: string;
  readonly path: readonly string[];
  /** The forms that would fit, in words. */
  readonly wanted: string;
  readonly value: unknown;
}

/** The keys that the components of a policy read, at any depth. */
export function dynamicKeys(document: Policy): DynamicKeys {
  const keys = new Map<string, Set<DynamicForm>>();
  visitMessages(policy, document, [], ({ message, value }) => {
    const members = value as Readonly<Record<string, unknown>>;
    for (const [name, { names }] of Object.entries(message.fields)) {
      const own = members[name];
      if (names !== undefined && typeof own === "string" && own !== "") {
        keys.set(own, (keys.get(own) ?? new Set()).add(names));
      }
    }
  });
  return keys;
}

/** The keys that any of several policies reads. */
export function dynamicKeysOf(documents: readonly Policy[]): DynamicKeys {
  const all = new Map<string, Set<DynamicForm>>();
  for (const document of documents) {
    for (const [key, forms] of dynamicKeys(document)) {
      all.set(key, new Set([...(all.get(key) ?? []), ...forms]));
    }
  }
  return all;
}

/**
 * Values that are read by the code that will read them when the circuit runs. A value that is read in several
 * forms fits when it has one of them.
 */
export function unfitValues(keys: DynamicKeys, config: JsonObject): readonly UnfitValue[] {
  let wanted: string[] = [];
  const { number, boolean, texts } = overridesOf(config, (_, form) => void wanted.push(form));
  const read: Readonly<Record<DynamicForm, (key: string) => unknown>> = {
    constant: number,
    boolean,
    texts,
  };
  const unfit: UnfitValue[] = [];
  for (const [key, forms] of keys) {
    wanted = [];
    for (const form of forms) read[form](key);
    if (wanted.length < forms.size) continue;
    const path = placeIn(config, key);
    unfit.push({ key, path, wanted: wanted.join(", or "), value: valueAt(config, key) });
  }
  return unfit;
}

/**
 * The first `most` members that no component reads, in the order of the configuration; the outermost of each branch.
 * Looking for a similar key takes time, and a configuration may have very many.
 */
export function unreadKeys(
  keys: DynamicKeys,
  config: JsonObject,
  most = Number.POSITIVE_INFINITY,
): readonly UnreadKey[] {
  const unread: UnreadKey[] = [];
  const near = similar(keys);
  const visit = (value: object, outer: readonly string[], steps: Steps): void => {
    for (const [name, inner] of Object.entries(value)) {
      if (unread.length >= most) return;
      const path = [...outer, name];
      const step = steps.inner.get(name);
      if (step !== undefined && step.inner.size > 0 && isObject(inner)) visit(inner, path, step);
      else if (step?.isKey !== true && (outer.length > 0 || !keys.has(name))) {
        const key = path.join(".");
        unread.push({ path, key, near: near(key) });
      }
    }
  };
  visit(config, [], stepsOf(keys));
  return unread;
}

/** `no component reads "limt"; did you mean limit?`. */
export function unreadReason({ key, near }: UnreadKey): string {
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return `no component reads ${NAME.test(key) ? quote(key) : "a key that is no name"}${hint}`;
}

/** Other keys are not repeated: the text may be anything but dynamic configuration, as behind a link to another file. */
const NAME = /^[\p{L}_][\p{L}\d_.\-/]*$/u;

/**
 * Warns of what is wrong with a dynamic configuration that comes with a policy, inside its document or in a file of its
 * own. `path` is the place of the configuration in its text.
 */
export function checkDynamicConfig(
  { document, circuit }: Pick<CompiledPolicy, "document" | "circuit">,
  config: Tree,
  path: Path,
  report: Report,
): void {
  const keys = dynamicKeys(document);
  const given = plain(config) as JsonObject;
  for (const unread of unreadKeys(keys, given)) {
    const text = `ignored: ${unreadReason(unread)}`;
    const named = NAME.test(unread.key) ? unread.path : [];
    report.warn("dynamic_config", locate(config, unread.path), [...path, ...named], text);
  }
  for (const { path: inner, wanted } of unfitValues(keys, given)) {
    const value = inner.reduce<Tree | undefined>(member, config) ?? config;
    const text = `the whole dynamic configuration is refused: wanted ${wanted}, got ${describe(value)}`;
    report.warn("dynamic_config", value.at, [...path, ...inner], text);
  }
  // Values of the wrong form are reported above.
  const overrides = overridesOf(given, () => undefined);
  for (const { id, port, text, key } of circuit ? overrideWarnings(circuit, overrides) : []) {
    const inner = placeIn(given, key);
    const sentence = `${port} of ${formatPath(pathOf(id))} is ${text}`;
    report.warn("unusual_value", locate(config, inner), [...path, ...inner], sentence);
  }
}

/** The place of a key in a configuration. */
function placeIn(config: JsonObject, key: string): readonly string[] {
  return Object.hasOwn(config, key) ? [key] : key.split(".");
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Keys by their parts between dots, each inside the one before. */
interface Steps {
  /** True if a whole key ends here. */
  isKey: boolean;
  readonly inner: Map<string, Steps>;
}

function stepsOf(keys: DynamicKeys): Steps {
  const root: Steps = { isKey: false, inner: new Map() };
  for (const key of keys.keys()) {
    let here = root;
    for (const part of key.split(".")) {
      const next: Steps = here.inner.get(part) ?? { isKey: false, inner: new Map() };
      here.inner.set(part, next);
      here = next;
    }
    here.isKey = true;
  }
  return root;
}

/** Each suggestion compares one key with all others, and long keys cost more: these bounds keep it cheap. */
const MAX_HINTS = 5;
const MAX_COMPARED = 200;
const LONGEST_COMPARED = 60;

function similar(keys: DynamicKeys): (key: string) => string | undefined {
  const known = [...keys.keys()]
    .filter(({ length }) => length <= LONGEST_COMPARED)
    .slice(0, MAX_COMPARED);
  let left = MAX_HINTS;
  return (key) => {
    if (left === 0 || key.length > LONGEST_COMPARED) return undefined;
    left -= 1;
    return nearest(key, known);
  };
}

const DYNAMIC_FILE = /\.dynamic\.(?:ya?ml|json)$/;

/** The policy for which a file has dynamic configuration: `v` for `v.dynamic.yaml`; undefined for other files. */
export function policyOfDynamicFile(file: string): string | undefined {
  return DYNAMIC_FILE.test(file) ? file.replace(DYNAMIC_FILE, "") : undefined;
}

/**
 * The object in the text of a file; an empty text is an empty object. Undefined when the text has faults, which go
 * to the report.
 */
export function readDynamicFile(text: string, report: Report): Tree | undefined {
  const before = report.faults;
  const [tree, ...more] = parse(text, report);
  const [second] = more;
  if (second !== undefined) report.refuse(second.at, [], "one document", "several");
  else if (tree !== undefined && tree.kind !== "map") {
    report.refuse(tree.at, [], "an object at the top level", kindOf(tree));
  }
  if (report.faults > before) return undefined;
  return tree ?? { kind: "map", at: START, entries: [] };
}
