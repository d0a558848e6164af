// Walks the messages of a valid document by the tables of the language.

import type { Path } from "./document/tree.ts";
import type { Message, Type } from "./language/field.ts";

/** A message of a document, and the one around it. */
export interface Part {
  readonly message: Message;
  readonly value: unknown;
  readonly path: Path;
  readonly outer: Part | undefined;
}

type Visit = (part: Part) => boolean | undefined;

/** Visits a message and all those inside it, the outer ones first. Those inside are left out where `visit` returns false. */
export function visitMessages(
  message: Message,
  value: unknown,
  path: Path,
  visit: Visit,
  outer?: Part,
): void {
  const part = { message, value, path, outer };
  if (visit(part) === false) return;
  const members = value as Readonly<Record<string, unknown>>;
  for (const [name, { type }] of Object.entries(message.fields)) {
    const inner = members[name];
    // Most members are absent; making a path for each would be wasted.
    if (inner !== undefined && COMPOUND.has(type.kind)) {
      visitParts(type, inner, [...path, name], visit, part);
    }
  }
}

const COMPOUND: ReadonlySet<Type["kind"]> = new Set<Type["kind"]>(["message", "list", "map"]);

function visitParts(type: Type, value: unknown, path: Path, visit: Visit, outer: Part): void {
  if (type.kind === "message") visitMessages(type.of(), value, path, visit, outer);
  if (type.kind !== "list" && type.kind !== "map") return;
  // Arrays and maps both have entries.
  for (const [key, item] of (value as ReadonlyMap<string, unknown>).entries()) {
    visitParts(type.of.type, item, [...path, key], visit, outer);
  }
}
