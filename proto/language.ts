// Writes the protobuf messages of the policy language from its tables (src/policy/language), which have the number,
// type and description of each field.

import type { Field, Message, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";

const HEADER = `// The policy language. Generated from src/policy/language by \`make proto\`; do not edit.
syntax = "proto3";

package aperture.policy.language.v1;

import "aperture/flowcontrol/check/v1/check.proto";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
`;

/** Oneofs with a member that only compilers of other makers write, in agents' configurations. No document has it. */
const PRIVATE = "google.protobuf.Any private = 1000;";
const WITH_PRIVATE: readonly string[] = ["FlowControl", "AutoScale"];

/** Oneofs that are called otherwise in the language, where their names are part of messages to users. */
const ONEOFS: Readonly<Record<string, string>> = {
  buckets: "histogram_buckets",
  constant: "const",
};

const WIDTH = 100;

interface Node {
  /** The fields of the message. */
  lines: readonly string[];
  readonly inner: Map<string, Node>;
}

/** The source of a file that declares the message `policy` and all messages inside it. */
export function languageProto(): string {
  const root: Node = { lines: [], inner: new Map() };
  const seen = new Set<string>();
  const visit = (message: Message): void => {
    if (seen.has(message.name)) return;
    seen.add(message.name);
    nodeOf(root, message.name).lines = fieldsOf(message);
    for (const { type } of Object.values(message.fields)) {
      const of = messageIn(type);
      if (of !== undefined) visit(of);
    }
  };
  visit(policy);
  return `${[HEADER, ...declarations(root)].join("\n").replaceAll(/\n{3,}/g, "\n\n")}\n`;
}

function nodeOf(root: Node, name: string): Node {
  let node = root;
  for (const part of name.split(".")) {
    const next = node.inner.get(part) ?? { lines: [], inner: new Map() };
    node.inner.set(part, next);
    node = next;
  }
  return node;
}

function declarations({ inner }: Node): string[] {
  return [...inner]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, node]) => [
      `message ${name} {`,
      ...indented([...declarations(node), ...node.lines]),
      "}",
      "",
    ]);
}

const indented = (lines: readonly string[]) =>
  lines.map((line) => (line === "" ? "" : `  ${line}`));

function fieldsOf({ name, fields }: Message): string[] {
  const sorted = Object.entries(fields).sort(([, a], [, b]) => (a.tag ?? 0) - (b.tag ?? 0));
  const groups = new Set(sorted.flatMap(([, { group }]) => group ?? []));
  const inGroup = (wanted: string | undefined) =>
    sorted
      .filter(([, { group }]) => group === wanted)
      .flatMap(([key, field]) => declared(key, field));
  const oneofs = [...groups].flatMap((group) => [
    `oneof ${ONEOFS[group] ?? group} {`,
    ...indented([...inGroup(group), ...(WITH_PRIVATE.includes(name) ? [PRIVATE] : [])]),
    "}",
  ]);
  return [...oneofs, ...inGroup(undefined)];
}

function declared(name: string, field: Field): string[] {
  const { type, tag, about = "" } = field;
  if (tag === undefined) throw new Error(`field ${name} has no number`);
  return [
    ...comment(about),
    `${hasPresence(field) ? "optional " : ""}${typeName(type)} ${name} = ${tag};`,
  ];
}

/** True for a scalar whose absence differs from its zero value. Messages always have presence. */
function hasPresence({ type, required, default: value, group }: Field): boolean {
  const scalar = ["text", "number", "integer", "boolean", "enum"].includes(type.kind);
  return scalar && required === undefined && value === undefined && group === undefined;
}

function typeName(type: Type): string {
  switch (type.kind) {
    case "text":
      return "string";
    case "number":
      return "double";
    case "integer":
      return type.size;
    case "boolean":
      return "bool";
    case "duration":
      return "google.protobuf.Duration";
    case "enum":
      return "aperture.flowcontrol.check.v1.StatusCode";
    case "object":
      return "google.protobuf.Struct";
    case "message":
      return type.of().name;
    case "list":
      return `repeated ${typeName(type.of.type)}`;
    case "map":
      return `map<string, ${typeName(type.of.type)}>`;
  }
}

function messageIn(type: Type): Message | undefined {
  if (type.kind === "message") return type.of();
  return type.kind === "list" || type.kind === "map" ? messageIn(type.of.type) : undefined;
}

/** Text as comment lines. */
function comment(text: string): string[] {
  return [...text.matchAll(new RegExp(`(.{1,${WIDTH}})(?: |$)`, "g"))].map(
    ([, line]) => `// ${line}`,
  );
}
