// The parameters of the components that agents carry out: those of the policy language, and those that occur in a document.

import type { Message, Type } from "#policy/language/field.ts";
import { flowControl } from "#policy/language/policy.ts";
import { inPort } from "#policy/language/ports.ts";
import { labelMatcher, selector } from "#policy/language/selector.ts";

/** They compile to a load scheduler, which is all that agents see of them. */
const STRATEGIES: ReadonlySet<string> = new Set([
  "aimd_load_scheduler",
  "aiad_load_scheduler",
  "range_driven_load_scheduler",
  "adaptive_load_scheduler",
]);

/** Parts of several components, which mean the same in all of them. Their fields, and those within, have paths of their own. */
const SHARED: ReadonlySet<Message> = new Set([selector as Message, labelMatcher as Message]);

function rootOf(message: Message, path: string): string {
  const within = /^[A-Z]/.test(path);
  return within || SHARED.has(message) ? message.name : path;
}

/** Calls `visit` for each field at its path, `<component>.<key>.<key>`, and for each word that it may be. */
type Visit = (path: string) => void;

/** Values of `choice` fields; of other texts none. */
function wordsOf(type: Type): readonly string[] {
  return type.kind === "text" ? (type.oneOf ?? []) : [];
}

function inside(type: Type): Message | undefined {
  if (type.kind === "message") return type.of();
  return type.kind === "list" || type.kind === "map" ? inside(type.of.type) : undefined;
}

/** The values that the circuit writes are left out: no agent sees them. */
const isOutput = (name: string) => name === "out_ports";

function declare(message: Message, path: string, known: Set<Message>, visit: Visit): void {
  const root = rootOf(message, path);
  if (known.has(message)) return;
  const within = new Set(known).add(message);
  for (const [name, { type }] of Object.entries(message.fields)) {
    if (isOutput(name)) continue;
    const here = `${root}.${name}`;
    visit(here);
    for (const word of wordsOf(type)) visit(`${here}=${word}`);
    const inner = inside(type);
    if (inner !== undefined && inner !== inPort) declare(inner, here, within, visit);
  }
}

function occur(message: Message, value: unknown, path: string, visit: Visit): void {
  const root = rootOf(message, path);
  for (const [name, { type }] of Object.entries(message.fields)) {
    const given = (value as Readonly<Record<string, unknown>>)[name];
    if (given === undefined || isOutput(name)) continue;
    const here = `${root}.${name}`;
    visit(here);
    if (wordsOf(type).length > 0) visit(`${here}=${given}`);
    const inner = inside(type);
    if (inner === undefined || inner === inPort) continue;
    const each = type.kind === "message" ? [given] : Object.values(given as object);
    for (const one of each) occur(inner, one, here, visit);
  }
}

/** Paths of all parameters of the components that agents carry out, and `<path>=<word>` of those that are one of several. */
export function parametersOfLanguage(): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [kind, { type }] of Object.entries(flowControl.fields)) {
    const message = inside(type);
    if (message !== undefined && !STRATEGIES.has(kind))
      declare(message, kind, new Set(), (path) => void found.add(path));
  }
  return found;
}

interface Document {
  readonly circuit: {
    readonly components: readonly Readonly<Record<string, Readonly<Record<string, unknown>>>>[];
  };
}

/** The same, of those that occur in a document. */
export function parametersOf(document: unknown): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { flow_control = {} } of (document as Document).circuit.components) {
    for (const [kind, value] of Object.entries(flow_control)) {
      const type = flowControl.fields[kind]?.type;
      const message = type && inside(type);
      if (message !== undefined) occur(message, value, kind, (path) => void found.add(path));
    }
  }
  return found;
}
