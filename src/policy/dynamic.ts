// Dynamic configuration that comes with a document: keys that no component reads and values of another form
// than their components want are said, since a circuit would only set them aside while it runs.

import { nearest } from "#base/near.ts";
import { overridesOf } from "#circuit/overrides.ts";
import type { Report } from "./finding.ts";
import type { DynamicForm, Message, Type } from "./language/field.ts";
import { type Policy, policy } from "./language/policy.ts";
import { describe, type Path, plain, quote, type Tree } from "./tree.ts";

type Keys = ReadonlyMap<string, ReadonlySet<DynamicForm>>;

/** What a document's components read of the dynamic configuration: forms by key. */
export function dynamicKeys(document: Policy): Keys {
  const keys = new Map<string, Set<DynamicForm>>();
  const visit = ({ fields }: Message, value: unknown): void => {
    const members = value as Readonly<Record<string, unknown>>;
    for (const [name, { type, names }] of Object.entries(fields)) {
      const own = members[name];
      if (names === undefined) visitType(type, own);
      else if (typeof own === "string" && own !== "") {
        keys.set(own, (keys.get(own) ?? new Set()).add(names));
      }
    }
  };
  const visitType = (type: Type, value: unknown): void => {
    if (value === undefined) return;
    if (type.kind === "message") visit(type.of(), value);
    if (type.kind !== "list" && type.kind !== "map") return;
    for (const item of (value as ReadonlyMap<string, unknown>).values()) {
      visitType(type.of.type, item);
    }
  };
  visit(policy, document);
  return keys;
}

/** `path` is where the configuration stands. Values are judged by the code that will read them. */
export function judgeDynamicConfig(
  document: Policy,
  config: Tree,
  path: Path,
  report: Report,
): void {
  const keys = dynamicKeys(document);
  const found = sayUnread(config, keys, path, report);
  const given = plain(config) as Readonly<Record<string, unknown>>;
  const overrides = overridesOf(given, (key, wanted) => {
    const value = found.get(key);
    if (value === undefined) return;
    const got = describe(value.tree);
    report.note(value.tree.at, value.path, `set aside: wanted ${wanted}, got ${got}`);
  });
  const read: Readonly<Record<DynamicForm, (key: string) => unknown>> = {
    constant: overrides.number,
    boolean: overrides.boolean,
    texts: overrides.texts,
  };
  for (const [key, forms] of keys) for (const form of forms) read[form](key);
}

interface Found {
  readonly tree: Tree;
  readonly path: Path;
}

/** Says which parts of the configuration nobody reads; gives the values that somebody reads, by key. */
function sayUnread(
  config: Tree,
  keys: Keys,
  path: Path,
  report: Report,
): ReadonlyMap<string, Found> {
  const found = new Map<string, Found>();
  const hint = hinter(keys);
  const visit = (tree: Tree, inner: readonly string[], steps: Steps): void => {
    if (tree.kind !== "map") return;
    for (const { key, keyAt, value } of tree.entries) {
      const own = [...inner, key];
      const step = steps.inner.get(key);
      const whole = inner.length === 0 && keys.has(key) ? key : step?.key;
      const where = [...path, ...own];
      // A key written whole comes before its parts.
      if (whole !== undefined && (inner.length === 0 || !found.has(whole))) {
        found.set(whole, { tree: value, path: where });
      }
      if (step !== undefined && step.inner.size > 0 && value.kind === "map") {
        visit(value, own, step);
      } else if (whole === undefined) {
        const unread = own.join(".");
        const text = `set aside: no component reads ${quote(unread)}${hint(unread)}`;
        report.note(keyAt, where, text);
      }
    }
  };
  visit(config, [], stepsOf(keys));
  return found;
}

/** Keys by their parts between dots, each inside the one before. */
interface Steps {
  /** The whole key that ends here. */
  key: string | undefined;
  readonly inner: Map<string, Steps>;
}

function stepsOf(keys: Keys): Steps {
  const root: Steps = { key: undefined, inner: new Map() };
  for (const key of keys.keys()) {
    let here = root;
    for (const part of key.split(".")) {
      const next: Steps = here.inner.get(part) ?? { key: undefined, inner: new Map() };
      here.inner.set(part, next);
      here = next;
    }
    here.key = key;
  }
  return root;
}

/** Suggestions cost time for each pair of words, and the longer the more: only so many are looked for. */
const MOST_HINTS = 5;
const MOST_COMPARED = 200;
const LONGEST_COMPARED = 60;

function hinter(keys: Keys): (key: string) => string {
  const known = [...keys.keys()]
    .filter(({ length }) => length <= LONGEST_COMPARED)
    .slice(0, MOST_COMPARED);
  let left = MOST_HINTS;
  return (key) => {
    if (left === 0 || key.length > LONGEST_COMPARED) return "";
    left -= 1;
    const near = nearest(key, known);
    return near === undefined ? "" : `; did you mean ${near}?`;
  };
}
