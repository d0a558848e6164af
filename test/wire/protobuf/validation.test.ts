// The rules in Sluice's own proto files, and rules that are not implemented.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  create,
  createFileRegistry,
  type DescMessage,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import {
  FieldDescriptorProtoSchema,
  type FieldOptions,
  FieldOptionsSchema,
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  type OneofOptions,
  OneofOptionsSchema,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { registry, schemaOf } from "#wire/protobuf/descriptors.ts";
import { constraintsOf, validate, violationsOf } from "#wire/protobuf/validation.ts";
import { optionOf } from "../../kit/messages/definitions.ts";

const SocketAddressSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.SocketAddress");
const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");
const PreviewSchema = schemaOf("aperture.flowcontrol.preview.v1.PreviewRequest");
const PostSchema = schemaOf("aperture.policy.language.v1.PostDynamicConfigRequest");
const FieldRulesSchema = schemaOf("validate.FieldRules");
const rules = optionOf<FieldOptions, MessagesByName["validate.FieldRules"]>("validate.rules");
const required = optionOf<OneofOptions, boolean>("validate.required");

function broken<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): string[] {
  const found = violationsOf(schema, create(schema, init));
  return found.map(({ field, wanted, got }) => `${field}: ${wanted}, ${got}`);
}

const NO_ADDRESS = "address: a string of at least 1 character, an empty string";

test("each rule refuses what breaks it and accepts its bound", () => {
  const socket = { address: "::1", port: 65535, protocol: 1 };
  assert.deepEqual(broken(SocketAddressSchema, socket), []);
  assert.deepEqual(broken(SocketAddressSchema, { address: "", port: 65536, protocol: 2 }), [
    "protocol: a value that the enum defines, another number",
    NO_ADDRESS,
    "port: a number of at most 65535, another number",
  ]);
  assert.deepEqual(broken(PreviewSchema, { samples: 1n, controlPoint: "x" }), []);
  assert.deepEqual(broken(PreviewSchema, { samples: 0n, controlPoint: "x" }), [
    "samples: a number of more than 0, another bigint",
  ]);
  assert.deepEqual(broken(PostSchema, { policyName: "p", dynamicConfig: {} }), []);
  assert.deepEqual(broken(PostSchema, { policyName: "p" }), ["dynamic_config: an object, nothing"]);
});

test("messages in a message are validated, and unset ones are not", () => {
  assert.deepEqual(broken(CheckHTTPRequestSchema, {}), []);
  assert.deepEqual(broken(CheckHTTPRequestSchema, { source: {} }), [`source.${NO_ADDRESS}`]);
});

/** Message `t.M`: in the oneof `choice` a text `f` with the given rules, and lists and maps of `SocketAddress`. */
function described(given: MessageInitShape<typeof FieldRulesSchema>, isRequired = false) {
  const options = create(FieldOptionsSchema);
  setExtension(options, rules, create(FieldRulesSchema, given));
  const choice = create(OneofOptionsSchema);
  if (isRequired) setExtension(choice, required, true);
  const field = (name: string, number: number, more: object) =>
    create(FieldDescriptorProtoSchema, { name, number, jsonName: name, ...more });
  const message = { type: Type.MESSAGE, label: Label.REPEATED };
  const socket = `.${SocketAddressSchema.typeName}`;
  const key = field("key", 1, { type: Type.STRING, label: Label.OPTIONAL });
  const value = field("value", 2, { ...message, label: Label.OPTIONAL, typeName: socket });
  const file = create(FileDescriptorProtoSchema, {
    name: "t.proto",
    package: "t",
    syntax: "proto3",
    dependency: [`${SocketAddressSchema.file.name}.proto`],
    messageType: [
      {
        name: "M",
        field: [
          field("f", 1, { type: Type.STRING, label: Label.OPTIONAL, oneofIndex: 0, options }),
          field("list", 2, { ...message, typeName: socket }),
          field("map", 3, { ...message, typeName: ".t.M.MapEntry" }),
        ],
        oneofDecl: [{ name: "choice", options: choice }],
        nestedType: [{ name: "MapEntry", field: [key, value], options: { mapEntry: true } }],
      },
    ],
  });
  const schema = createFileRegistry(file, () => SocketAddressSchema.file).getMessage("t.M");
  assert.ok(schema);
  return schema;
}

const TWO = { type: { case: "string", value: { minLen: 2n } } } as const;

test("of a oneof, only the rules of the arm that is set apply", () => {
  assert.deepEqual(broken(described(TWO), {}), []);
  const choice = { case: "f", value: "a" };
  assert.deepEqual(broken(described(TWO), { choice }), [
    "f: a string of at least 2 characters, another string",
  ]);
});

test("messages in lists and maps are validated, and no violation contains a key", () => {
  const socket = create(SocketAddressSchema, { address: "::1" });
  const none = create(SocketAddressSchema);
  const init = { list: [socket, none], map: { secret: none } };
  assert.deepEqual(broken(described(TWO), init), [`list[1].${NO_ADDRESS}`, `map{}.${NO_ADDRESS}`]);
});

test("a rule that is not implemented throws", () => {
  const email = { type: { case: "string", value: { wellKnown: { case: "email", value: true } } } };
  assert.throws(() => broken(described(email as never), {}), /string\.email is not supported/);
  assert.throws(() => broken(described(TWO, true), {}), /validate\.required is not supported/);
});

test("every rule in Sluice's own proto files is implemented", () => {
  const fields = [...registry]
    .filter((desc) => desc.kind === "message")
    .filter(({ typeName }) => /^(aperture|sluice)\./.test(typeName))
    .flatMap(({ fields }) => fields);
  const constraints = fields.flatMap((field) => constraintsOf(field));
  assert.ok(constraints.length >= 8, String(constraints.length));
});

test("the fault names every broken rule and contains no value", () => {
  validate(SocketAddressSchema, create(SocketAddressSchema, { address: "::1" }));
  assert.throws(
    () => validate(SocketAddressSchema, create(SocketAddressSchema, { port: 70000 })),
    new Fault(
      "INVALID_ARGUMENT",
      "address: wanted a string of at least 1 character, got an empty string; port: wanted a number of at most 65535, got another number",
    ),
  );
});
