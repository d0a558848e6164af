// Compares the tables of the language with the protobuf messages: the same fields, types and oneofs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { Message, Type } from "#policy/language/field.ts";
import { policy } from "#policy/language/policy.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";

const PolicySchema = schemaOf("aperture.policy.language.v1.Policy");

/** Messages of leaves that only a compiler makes; they are not in any document. */
const INTERNAL = "private";

const SCALARS: Readonly<Record<string, ScalarType>> = {
  text: ScalarType.STRING,
  number: ScalarType.DOUBLE,
  boolean: ScalarType.BOOL,
  int32: ScalarType.INT32,
  uint32: ScalarType.UINT32,
  int64: ScalarType.INT64,
};

/** Compares two messages recursively; returns the pairs that were compared. */
function compare(table: Message, desc: DescMessage, seen: Map<Message, DescMessage>): void {
  if (seen.has(table)) return;
  seen.set(table, desc);
  const fields = desc.fields.filter(({ name }) => name !== INTERNAL);
  assert.deepEqual(
    Object.keys(table.fields).sort(),
    fields.map(({ name }) => name).sort(),
    desc.typeName,
  );
  for (const field of fields) {
    const own = table.fields[field.name];
    assert.ok(own);
    const where = `${desc.typeName}.${field.name}`;
    // A oneof of one member is a plain field in a document.
    const together = (field.oneof?.fields ?? [field])
      .map(({ name }) => name)
      .filter((name) => name !== INTERNAL);
    const group = Object.keys(table.fields).filter(
      (name) => name === field.name || (own.group && table.fields[name]?.group === own.group),
    );
    assert.deepEqual(group.sort(), together.sort(), `${where}: oneof`);
    compareType(own.type, field, where, seen);
  }
}

function compareType(
  type: Type,
  field: DescField,
  where: string,
  seen: Map<Message, DescMessage>,
): void {
  if (type.kind === "list") {
    assert.equal(field.fieldKind, "list", where);
    compareLeaf(type.of.type, field, where, seen);
  } else if (type.kind === "map") {
    assert.equal(field.fieldKind, "map", where);
    compareLeaf(type.of.type, field, where, seen);
  } else {
    assert.ok(field.fieldKind !== "list" && field.fieldKind !== "map", where);
    compareLeaf(type, field, where, seen);
  }
}

function compareLeaf(
  type: Type,
  field: DescField,
  where: string,
  seen: Map<Message, DescMessage>,
): void {
  if (type.kind === "message") {
    assert.ok(field.message, `${where}: a message`);
    compare(type.of(), field.message, seen);
  } else if (type.kind === "duration" || type.kind === "object") {
    const name = type.kind === "duration" ? "Duration" : "Struct";
    assert.equal(field.message?.typeName, `google.protobuf.${name}`, where);
  } else if (type.kind === "enum") {
    const values = field.enum?.values.map(({ name, number }) => [name, number] as const);
    const own = [...type.numbers].map(([name, number]) => [name, number]);
    assert.deepEqual(own.sort(), values?.map(([name, number]) => [name, number]).sort(), where);
  } else {
    assert.equal(field.scalar, SCALARS[type.kind === "integer" ? type.size : type.kind], where);
  }
}

test("a field name that is a duration in one message is one in all messages", () => {
  const kinds = new Map<string, Set<boolean>>();
  const seen = new Set<Message>();
  const visit = (table: Message): void => {
    if (seen.has(table)) return;
    seen.add(table);
    for (const [name, { type }] of Object.entries(table.fields)) {
      const inner = type.kind === "list" || type.kind === "map" ? type.of.type : type;
      kinds.set(name, (kinds.get(name) ?? new Set()).add(inner.kind === "duration"));
      if (inner.kind === "message") visit(inner.of());
    }
  };
  visit(policy);
  const durations = [...kinds].filter(([, is]) => is.has(true));
  assert.ok(durations.length > 15, String(durations.length));
  for (const [name, is] of durations) assert.equal(is.size, 1, name);
});

test("the tables have every message and field of the language", () => {
  const seen = new Map<Message, DescMessage>();
  compare(policy, PolicySchema, seen);
  assert.ok(seen.size > 100, `only ${seen.size} messages were compared`);
});
