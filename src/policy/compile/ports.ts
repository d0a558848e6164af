// Visits every port of a component. Finds ports through the tables of the language, without knowing any kind.

import type { Path } from "../document/tree.ts";
import type { Message, Type } from "../language/field.ts";
import { component } from "../language/policy.ts";
import { type InPort, inPort, type OutPort, outPort } from "../language/ports.ts";

interface PortVisitor {
  in(port: InPort, path: Path): void;
  out(port: OutPort, path: Path): void;
}

/** Skips the components of a nested circuit, whose signals are their own. */
export function eachPort(message: Message, value: unknown, path: Path, visit: PortVisitor): void {
  const members = value as Readonly<Record<string, unknown>>;
  for (const [name, { type }] of Object.entries(message.fields)) {
    const inner = members[name];
    // Most members of a component are absent; making a path for each would be wasted.
    if (inner !== undefined) eachInType(type, inner, [...path, name], visit);
  }
}

function eachInType(type: Type, value: unknown, path: Path, visit: PortVisitor): void {
  if (type.kind === "list") {
    for (const [at, item] of (value as readonly unknown[]).entries()) {
      eachInType(type.of.type, item, [...path, at], visit);
    }
  } else if (type.kind === "map") {
    for (const [key, item] of value as ReadonlyMap<string, unknown>) {
      eachInType(type.of.type, item, [...path, key], visit);
    }
  } else if (type.kind === "message") {
    const message = type.of();
    if (message === inPort) visit.in(value as InPort, path);
    else if (message === outPort) visit.out(value as OutPort, path);
    else if (message !== component) eachPort(message, value, path, visit);
  }
}
