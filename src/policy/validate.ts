// Validates a document against the tables of the language. Reports all findings at once, each with its place,
// what was wanted and what was got. A valid document is returned as typed data with defaults filled in.

import { nearest, respelled } from "#base/text/spelling.ts";
import type { Report } from "./document/finding.ts";
import {
  describe,
  locate,
  type Path,
  plain,
  quote,
  type Tree,
  type TreeEntry,
} from "./document/tree.ts";
import type { Field, Message, Setting, Type } from "./language/field.ts";
import { type Level, placeOf } from "./validate/misplaced.ts";
import { Scalars } from "./validate/scalars.ts";

/** Values that replace defaults of fields. */
type Defaults = Readonly<Partial<Record<Setting, string>>>;

/** Undefined when the document is invalid. `path` is the place of `tree` in its document. */
export function validate<V>(
  message: Message<V>,
  tree: Tree,
  path: Path,
  report: Report,
  defaults: Defaults = {},
): V | undefined {
  const before = report.faults;
  const value = new Validator(report, defaults).message(message, tree, path) as V;
  return report.faults === before ? value : undefined;
}

const PUBLISHED = "published; agents of this version do not act on it";

/** Invalid values are undefined or left out of the result, which is discarded once there is a finding. */
class Validator {
  readonly #report: Report;
  readonly #defaults: Defaults;
  readonly #scalars: Scalars;
  /** The messages around the one at hand, the nearest one last. */
  readonly #above: Level[] = [];

  constructor(report: Report, defaults: Defaults) {
    this.#report = report;
    this.#defaults = defaults;
    this.#scalars = new Scalars(report);
  }

  #refuse(tree: Tree, path: Path, wanted: string, got: string): undefined {
    this.#report.refuse(tree.at, path, wanted, got);
  }

  message(message: Message, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") {
      return this.#refuse(tree, path, objectWanted(message, tree), describe(tree));
    }
    const before = this.#report.faults;
    const meant = this.#unknownKeys(message, tree, path);
    const unknown = this.#report.faults > before;
    const value: Record<string, unknown> = {};
    const present = new Map<string, string[]>();
    for (const [name, field] of Object.entries(message.fields)) {
      const entry = tree.entries.find(({ key }) => key === name);
      if (entry === undefined || entry.value.kind === "null") {
        if (field.switches && entry?.value.kind === "null" && entry.value.unwritten) {
          this.#refuse(entry.value, [...path, name], "an object, {} for its defaults", "nothing");
        }
        // Absent arms of a oneof are left out: a component has dozens, which would take a kilobyte of each policy.
        const byDefault = (field.setting && this.#defaults[field.setting]) ?? field.default;
        if (field.group === undefined || byDefault !== undefined) value[name] = byDefault;
        if (field.required && !meant.has(name)) {
          this.#refuse(tree, [...path, name], `a value: ${name} is required`, "nothing");
        }
        continue;
      }
      const at = [...path, name];
      if (field.group !== undefined) {
        present.set(field.group, [...(present.get(field.group) ?? []), name]);
      }
      this.#warn(field, entry, at);
      this.#above.push({ key: keyOf(path), message });
      value[name] = this.#field(field, entry.value, at);
      this.#above.pop();
    }
    this.#groups(message, tree, path, present, unknown);
    if (this.#report.faults === before) {
      message.check?.(
        value,
        (inner, wanted, got) => {
          this.#report.refuse(() => locate(tree, inner), [...path, ...inner], wanted, got);
        },
        (code, inner, text) =>
          this.#report.warn(code, () => locate(tree, inner), [...path, ...inner], text),
      );
    }
    return value;
  }

  #warn(field: Field, { keyAt: at, value }: TreeEntry, path: Path): void {
    // Documents with every default written out name deprecated fields too, without using them.
    const unused =
      (value.kind === "text" && value.value === "") ||
      (value.kind === "list" && value.items.length === 0);
    if (field.deprecated !== undefined && !unused) {
      const instead = field.deprecated === "" ? "" : `; write ${field.deprecated} instead`;
      this.#report.warn("deprecated", at, path, `deprecated${instead}`);
    }
    const empty =
      (value.kind === "list" && value.items.length === 0) ||
      (value.kind === "map" && value.entries.length === 0);
    if (field.published && !empty) this.#report.warn("not_run", at, path, PUBLISHED);
  }

  /** Refuses unknown keys; returns the fields that were probably meant, so that these are not reported missing. */
  #unknownKeys(
    message: Message,
    tree: Tree & { readonly kind: "map" },
    path: Path,
  ): ReadonlySet<string> {
    const names = Object.keys(message.fields);
    const meant = new Set<string>();
    if (path.length === 0 && isForeign(tree, names)) {
      const wanted = `a policy, which has ${names.join(" or ")}, or a Kubernetes object around one`;
      this.#refuse(tree, path, wanted, "an object without any of their keys");
      return meant;
    }
    for (const { key, keyAt } of tree.entries) {
      if (Object.hasOwn(message.fields, key)) continue;
      const got = `the unknown key ${quote(key)}`;
      if (this.#report.full) {
        this.#report.refuse(keyAt, [...path, key], "a known key", got);
        continue;
      }
      const camel = respelled(key, names);
      const place = camel === undefined ? placeOf(key, message, this.#above) : undefined;
      const near = camel ?? (place === undefined ? nearest(key, names) : undefined);
      if (near !== undefined) meant.add(near);
      const wanted =
        camel !== undefined
          ? `${camel} (keys are snake_case)`
          : near !== undefined
            ? `a key of ${message.name}; did you mean ${near}?`
            : place !== undefined
              ? `a key of ${message.name}`
              : `a key of ${message.name}: ${names.join(", ")}`;
      const where = place === undefined ? "" : `, which belongs ${place}`;
      this.#report.refuse(keyAt, [...path, key], wanted, `${got}${where}`);
    }
    return meant;
  }

  #groups(
    message: Message,
    tree: Tree,
    path: Path,
    present: ReadonlyMap<string, readonly string[]>,
    unknown: boolean,
  ): void {
    const groups = new Map<string, string[]>();
    for (const [name, { group }] of Object.entries(message.fields)) {
      if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), name]);
    }
    for (const [group, members] of groups) {
      const found = present.get(group) ?? [];
      const what = message.oneOf[group];
      const wanted = `one ${what ?? group} out of ${members.join(", ")}`;
      if (found.length > 1) this.#refuse(tree, path, wanted, found.join(" and "));
      // When an unknown key was refused, it was probably meant to be the missing member.
      else if (found.length === 0 && what !== undefined && !unknown) {
        this.#refuse(tree, path, wanted, "none");
      }
    }
  }

  #field(field: Field, tree: Tree, path: Path): unknown {
    const before = this.#report.faults;
    const value = this.#type(field.type, tree, path);
    const empty = value === "" || value === 0;
    if (
      field.required &&
      empty &&
      field.type.kind !== "duration" &&
      this.#report.faults === before
    ) {
      const wanted = value === 0 ? "a number other than 0" : "text that is not empty";
      return this.#refuse(tree, path, wanted, describe(tree));
    }
    return value;
  }

  #type(type: Type, tree: Tree, path: Path): unknown {
    switch (type.kind) {
      case "message":
        return this.message(type.of(), tree, path);
      case "list":
        return this.#list(type, tree, path);
      case "map":
        return this.#map(type, tree, path);
      case "text":
        return this.#scalars.text(type, tree, path);
      case "number":
        return this.#scalars.number(type, tree, path);
      case "integer":
        return this.#scalars.integer(type, tree, path);
      case "boolean":
        return tree.kind === "boolean"
          ? tree.value
          : this.#refuse(tree, path, "true or false", describe(tree));
      case "duration":
        return this.#scalars.duration(type, tree, path);
      case "enum":
        return this.#scalars.enum(type, tree, path);
      case "object":
        return tree.kind === "map"
          ? plain(tree)
          : this.#refuse(tree, path, "an object", describe(tree));
    }
  }

  #list(type: Type & { readonly kind: "list" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "list") return this.#refuse(tree, path, "a list", describe(tree));
    if (type.filled && tree.items.length === 0) {
      return this.#refuse(tree, path, "at least one element", "an empty list");
    }
    const { items, written } = tree;
    return items.map((item, at) => this.#field(type.of, item, [...path, written?.[at] ?? at]));
  }

  #map(type: Type & { readonly kind: "map" }, tree: Tree, path: Path): unknown {
    if (tree.kind !== "map") return this.#refuse(tree, path, "an object", describe(tree));
    if (type.filled && tree.entries.length === 0) {
      return this.#refuse(tree, path, "at least one entry", "an empty object");
    }
    const value = new Map<string, unknown>();
    for (const entry of tree.entries) {
      const at = [...path, entry.key];
      this.#type(type.keys, { kind: "text", at: entry.keyAt, value: entry.key }, at);
      value.set(entry.key, this.#field(type.of, entry.value, at));
    }
    return value;
  }
}

/** The key that holds the message at this place: the last one that is no index. */
function keyOf(path: Path): string {
  return String(path.findLast((part) => typeof part === "string") ?? "");
}

/** A port is an object, although it mostly holds one number. */
function objectWanted({ fields }: Message, tree: Tree): string {
  const isPort = Object.hasOwn(fields, "constant_signal");
  return isPort && tree.kind === "number"
    ? `an object, which is {constant_signal: {value: ${tree.value}}} for this number`
    : "an object";
}

/**
 * True for an object that has none of these keys, not even misspelt. Such a document may be anything, as behind a link
 * to another file, so the finding does not repeat its keys.
 */
function isForeign(
  { entries }: Tree & { readonly kind: "map" },
  names: readonly string[],
): boolean {
  const isNear = (key: string) => names.includes(key) || nearest(key, names) !== undefined;
  return entries.length > 0 && !entries.some(({ key }) => isNear(key));
}
