// All messages by full name, for tests that read or write them with one of the protobuf libraries.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import type { Message } from "@bufbuild/protobuf";
import type { GenExtension } from "@bufbuild/protobuf/codegenv2";
import { DESCRIPTOR_SET, Definitions } from "#wire/protobuf/definitions.ts";
import { registry } from "#wire/protobuf/descriptors.ts";

/** The types of the same messages by which protobufjs reads and writes. */
export const definitions = new Definitions(readFileSync(DESCRIPTOR_SET));

/** An extension of the options of fields, oneofs, messages or methods. */
export function optionOf<Extendee extends Message, Value>(name: string) {
  const extension = registry.getExtension(name);
  assert.ok(extension, name);
  return extension as GenExtension<Extendee, Value>;
}
