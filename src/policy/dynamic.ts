// Dynamic configuration that comes with a document: keys that no component reads and values of another form
// than their components want are said, since a circuit would only set them aside while it runs.

import { nearest } from "#base/near.ts";
import type { Notice } from "./finding.ts";
import type { DynamicForm, Message, Type } from "./language/field.ts";
import { type Policy, policy } from "./language/policy.ts";
import {
  describe,
  formatPath,
  member,
  type Path,
  type Position,
  quote,
  type Tree,
} from "./tree.ts";

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

/** `path` is where the configuration stands. */
export function judgeDynamicConfig(document: Policy, config: Tree, path: Path): Notice[] {
  const keys = dynamicKeys(document);
  const notices: Notice[] = [];
  const note = (at: Position, inner: Path, text: string): void => {
    notices.push({ at, path: formatPath([...path, ...inner]), text });
  };
  const visit = (tree: Tree, inner: readonly string[]): void => {
    if (tree.kind !== "map") return;
    for (const { key, keyAt, value } of tree.entries) {
      const steps = [...inner, key];
      const whole = steps.join(".");
      const forms = keys.get(whole);
      const around = [...keys.keys()].some((known) => known.startsWith(`${whole}.`));
      if (around && value.kind === "map") visit(value, steps);
      else if (forms === undefined) note(keyAt, steps, unread(whole, keys));
      for (const form of forms ?? []) {
        if (value.kind === "null" || FITS[form](value)) continue;
        note(value.at, steps, `set aside: wanted ${WANTED[form]}, got ${describe(value)}`);
      }
    }
  };
  visit(config, []);
  return notices;
}

function unread(key: string, keys: Keys): string {
  const near = nearest(key, [...keys.keys()]);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return `set aside: no component reads ${quote(key)}${hint}`;
}

const WANTED: Readonly<Record<DynamicForm, string>> = {
  constant: "{value: number} or {special_value: NaN, +Inf or -Inf}",
  boolean: "true or false",
  texts: "a list of texts",
};

const SPECIAL: readonly string[] = ["NaN", "+Inf", "-Inf"];
const WORDS: ReadonlySet<string> = new Set(
  "1 t T true TRUE True 0 f F false FALSE False".split(" "),
);

const FITS: Readonly<Record<DynamicForm, (tree: Tree) => boolean>> = {
  constant(tree) {
    if (tree.kind !== "map" || tree.entries.length > 1) return false;
    const special = member(tree, "special_value");
    if (special !== undefined) return special.kind === "text" && SPECIAL.includes(special.value);
    return tree.entries.length === 0 || member(tree, "value")?.kind === "number";
  },
  boolean: (tree) =>
    tree.kind === "boolean" ||
    tree.kind === "number" ||
    (tree.kind === "text" && WORDS.has(tree.value)),
  texts: (tree) => tree.kind === "list" && tree.items.every(({ kind }) => kind === "text"),
};
