// The generated code matches the proto files, and the proto files keep the names and numbers that existing clients use.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  type DescField,
  type DescFile,
  type DescMethod,
  getOption,
  hasOption,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import type { FieldOptions, MethodOptions } from "@bufbuild/protobuf/wkt";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { registry, schemaOf } from "#wire/protobuf/descriptors.ts";
import { optionOf } from "../../kit/messages/definitions.ts";

const HttpRuleSchema = schemaOf("google.api.HttpRule");
const FieldRulesSchema = schemaOf("validate.FieldRules");
const http = optionOf<MethodOptions, MessagesByName["google.api.HttpRule"]>("google.api.http");
const rules = optionOf<FieldOptions, MessagesByName["validate.FieldRules"]>("validate.rules");

const ROOT = join(import.meta.dirname, "../../..");

/** Blocks of the table: a line at the margin and the lines under it, in any order. */
function blocks(lines: readonly string[]): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  let current: string[] = [];
  for (const line of lines) {
    if (line.startsWith("  ")) current.push(line.trim());
    else {
      current = [];
      found[line] = current;
    }
  }
  for (const block of Object.values(found)) block.sort();
  return found;
}

function typeOf(field: DescField): string {
  const scalar = (type: ScalarType): string => ScalarType[type].toLowerCase();
  const single =
    field.message?.typeName ?? field.enum?.typeName ?? scalar(field.scalar ?? ScalarType.STRING);
  if (field.fieldKind === "map") return `map<${scalar(field.mapKey)},${single}>`;
  return field.fieldKind === "list" ? `repeated ${single}` : single;
}

/** A rule as `string.min_len=1`. Fields of proto2 messages are printed only where they are set. */
function rulesOf(field: DescField): string {
  if (!hasOption(field, rules)) return "";
  const json = toJson(FieldRulesSchema, getOption(field, rules), { useProtoFieldName: true });
  const parts = Object.entries(json as Record<string, Record<string, unknown>>).flatMap(
    ([kind, set]) => Object.entries(set).map(([rule, value]) => `${kind}.${rule}=${value}`),
  );
  return ` [${parts.join(", ")}]`;
}

function bindingOf(method: DescMethod): string {
  if (!hasOption(method, http)) return "";
  type Rule = { additional_bindings?: Rule[] } & Record<string, string>;
  const parts = ({ additional_bindings = [], ...rule }: Rule): string[] => [
    ...Object.entries(rule).map(([key, value]) => `${key} ${value}`),
    ...additional_bindings.flatMap((more) => parts(more).map((p) => `additional_bindings.${p}`)),
  ];
  const json = toJson(HttpRuleSchema, getOption(method, http), { useProtoFieldName: true });
  return ` ${parts(json as Rule)
    .sort((a, b) => order(a) - order(b))
    .join(", ")}`;
}

/** Path before body, first binding before the others. */
function order(part: string): number {
  return (part.startsWith("additional") ? 2 : 0) + (/(^|\.)body /.test(part) ? 1 : 0);
}

function rendered(file: DescFile): string[] {
  const lines = [`file ${file.name}.proto ${file.proto.package}`];
  for (const desc of nestedTypes(file)) {
    if (desc.kind === "service")
      for (const method of desc.methods)
        lines.push(
          `rpc ${desc.typeName}/${method.name} ${method.input.typeName} ${method.output.typeName}${bindingOf(method)}`,
        );
    if (desc.kind === "enum")
      lines.push(`enum ${desc.typeName}`, ...desc.values.map((v) => `  ${v.number} ${v.name}`));
    if (desc.kind === "message")
      lines.push(
        `message ${desc.typeName}`,
        ...desc.fields.map((field) => {
          const oneof = field.oneof === undefined ? "" : ` {${field.oneof.name}}`;
          return `  ${field.number} ${field.name} ${typeOf(field)}${oneof}${rulesOf(field)}`;
        }),
      );
  }
  return lines;
}

test("the generated code is up to date with the proto files", () => {
  const { status, stderr } = spawnSync(process.execPath, ["proto/generate.ts", "--check"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
});

test("names and numbers match the recorded table", () => {
  const table = readFileSync(join(import.meta.dirname, "messages.txt"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const files = [...registry.files].filter(({ name }) => name.startsWith("aperture/"));
  assert.ok(files.length >= 13 && table.length > 1000);
  assert.deepEqual(blocks(files.flatMap(rendered)), blocks(table));
});
