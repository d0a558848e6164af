// Each validation rule, on messages defined here, and the rules in Sluice's own proto files.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  create,
  createFileRegistry,
  type DescMessage,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import {
  file_google_protobuf_any as ANY,
  file_google_protobuf_descriptor as DESCRIPTOR,
  file_google_protobuf_duration as DURATION,
  type FieldDescriptorProto,
  FieldDescriptorProtoSchema,
  type FieldOptions,
  FieldOptionsSchema,
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  type MessageOptions,
  MessageOptionsSchema,
  type OneofOptions,
  OneofOptionsSchema,
  file_google_protobuf_timestamp as TIMESTAMP,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { Fault } from "#base/fault.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { compileRules, MessageValidator } from "#wire/protobuf/validation.ts";
import { optionOf } from "../../kit/messages/definitions.ts";

const SocketAddressSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.SocketAddress");
const PostDynamicConfigRequestSchema = schemaOf(
  "aperture.policy.language.v1.PostDynamicConfigRequest",
);
const FieldRulesSchema = schemaOf("validate.FieldRules");
const VALIDATE = FieldRulesSchema.file;
const disabled = optionOf<MessageOptions, boolean>("validate.disabled");
const required = optionOf<OneofOptions, boolean>("validate.required");
const rules = optionOf<FieldOptions, MessagesByName["validate.FieldRules"]>("validate.rules");

type Rules = MessageInitShape<typeof FieldRulesSchema>;
type Field = Partial<Pick<FieldDescriptorProto, "type" | "label" | "typeName" | "oneofIndex">>;

/** A field `f` of a proto3 message; `given` may be absent. */
function field(name: string, number: number, shape: Field, given?: Rules): FieldDescriptorProto {
  const made = create(FieldDescriptorProtoSchema, {
    name,
    number,
    jsonName: name,
    type: Type.STRING,
    label: Label.OPTIONAL,
    ...shape,
  });
  if (given === undefined) return made;
  made.options = create(FieldOptionsSchema);
  setExtension(made.options, rules, create(FieldRulesSchema, given));
  return made;
}

interface Described {
  readonly fields: readonly FieldDescriptorProto[];
  readonly oneof?: "plain" | "required";
  readonly disabled?: boolean;
}

/** Message `t.M`, beside it `t.E` (0 and 2) and `t.Inner` with a non-empty string `f`. */
function described({ fields, oneof, disabled: off = false }: Described): DescMessage {
  const oneofOptions = create(OneofOptionsSchema);
  if (oneof === "required") setExtension(oneofOptions, required, true);
  const options = create(MessageOptionsSchema);
  if (off) setExtension(options, disabled, true);
  const oneofDecl = oneof === undefined ? [] : [{ name: "choice", options: oneofOptions }];
  const inner = field("f", 1, {}, { type: { case: "string", value: { minLen: 1n } } });
  const dependencies = [VALIDATE, ANY, DESCRIPTOR, DURATION, TIMESTAMP];
  const file = create(FileDescriptorProtoSchema, {
    name: "t.proto",
    package: "t",
    syntax: "proto3",
    dependency: dependencies.map((each) => each.proto.name),
    messageType: [
      { name: "M", field: [...fields], oneofDecl, options },
      { name: "Inner", field: [inner] },
    ],
    enumType: [
      {
        name: "E",
        value: [
          { name: "ZERO", number: 0 },
          { name: "TWO", number: 2 },
        ],
      },
    ],
  });
  const registry = createFileRegistry(file, (name) =>
    dependencies.find((each) => each.proto.name === name),
  );
  const message = registry.getMessage("t.M");
  assert.ok(message);
  return message;
}

function broken(desc: DescMessage, json: JsonValue): string[] {
  return compileRules(desc)(fromJson(desc, json)).map((v) => `${v.field}: ${v.wanted}, ${v.got}`);
}

interface Case {
  readonly rule: string;
  readonly shape?: Field;
  readonly given: Rules;
  readonly good: readonly JsonValue[];
  readonly bad: readonly JsonValue[];
}

const int32 = { type: Type.INT32 };
const int64 = { type: Type.INT64 };
const double = { type: Type.DOUBLE };
const bytes = { type: Type.BYTES };
const enumeration = { type: Type.ENUM, typeName: ".t.E" };
const duration = { type: Type.MESSAGE, typeName: ".google.protobuf.Duration" };
const timestamp = { type: Type.MESSAGE, typeName: ".google.protobuf.Timestamp" };
const list = { label: Label.REPEATED };
const b64 = (text: string): string => Buffer.from(text).toString("base64");
const bin = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
const string = (value: Extract<Rules["type"], { case?: "string" }>["value"]): Rules => ({
  type: { case: "string", value: value ?? {} },
});
const seconds = (n: number): { seconds: bigint } => ({ seconds: BigInt(n) });

const CASES: readonly Case[] = [
  { rule: "string.const", given: string({ const: "a" }), good: ["a"], bad: ["", "b"] },
  { rule: "string.len", given: string({ len: 2n }), good: ["ab", "🌊🌊"], bad: ["a", "abc"] },
  { rule: "string.min_len", given: string({ minLen: 2n }), good: ["ab", "abc"], bad: ["", "🌊"] },
  { rule: "string.max_len", given: string({ maxLen: 2n }), good: ["", "🌊🌊"], bad: ["abc"] },
  { rule: "string.max_len 0", given: string({ maxLen: 0n }), good: [""], bad: ["a"] },
  { rule: "string.len_bytes", given: string({ lenBytes: 4n }), good: ["🌊"], bad: ["ab"] },
  { rule: "string.min_bytes", given: string({ minBytes: 4n }), good: ["🌊"], bad: ["abc"] },
  { rule: "string.max_bytes", given: string({ maxBytes: 3n }), good: ["abc"], bad: ["🌊"] },
  { rule: "string.pattern", given: string({ pattern: "^(?i)x\\z" }), good: ["X"], bad: ["xx", ""] },
  { rule: "string.prefix", given: string({ prefix: "ab" }), good: ["abc"], bad: ["cab"] },
  { rule: "string.suffix", given: string({ suffix: "ab" }), good: ["cab"], bad: ["abc"] },
  { rule: "string.contains", given: string({ contains: "ab" }), good: ["cabc"], bad: ["acb"] },
  { rule: "string.not_contains", given: string({ notContains: "ab" }), good: ["ba"], bad: ["ab"] },
  { rule: "string.in", given: string({ in: ["a", "b"] }), good: ["a", "b"], bad: ["c", ""] },
  { rule: "string.not_in", given: string({ notIn: ["a"] }), good: ["b"], bad: ["a"] },
  {
    rule: "string.ip",
    given: string({ wellKnown: { case: "ip", value: true } }),
    good: ["1.2.3.4", "::1"],
    bad: ["", "1.2.3", "host"],
  },
  {
    rule: "string.ipv4",
    given: string({ wellKnown: { case: "ipv4", value: true } }),
    good: ["1.2.3.4"],
    bad: ["::1"],
  },
  {
    rule: "string.ipv6",
    given: string({ wellKnown: { case: "ipv6", value: true } }),
    good: ["::1"],
    bad: ["1.2.3.4"],
  },
  {
    rule: "string.hostname",
    given: string({ wellKnown: { case: "hostname", value: true } }),
    good: ["a.b-c.d"],
    bad: ["-a", "a..b", "a_b", "x".repeat(64)],
  },
  {
    rule: "string.address",
    given: string({ wellKnown: { case: "address", value: true } }),
    good: ["::1", "a.b"],
    bad: ["a b"],
  },
  {
    rule: "string.uri",
    given: string({ wellKnown: { case: "uri", value: true } }),
    good: ["http://a/b"],
    bad: ["/b"],
  },
  {
    rule: "string.uri_ref",
    given: string({ wellKnown: { case: "uriRef", value: true } }),
    good: ["/b", "http://a/b"],
    bad: ["http://["],
  },
  {
    rule: "string.uuid",
    given: string({ wellKnown: { case: "uuid", value: true } }),
    good: ["01234567-89ab-cdef-0123-456789abcdef"],
    bad: ["01234567"],
  },
  {
    rule: "int32.const",
    shape: int32,
    given: { type: { case: "int32", value: { const: 3 } } },
    good: [3],
    bad: [0],
  },
  {
    rule: "int32.gt and lte",
    shape: int32,
    given: { type: { case: "int32", value: { gt: 1, lte: 3 } } },
    good: [2, 3],
    bad: [1, 4],
  },
  {
    rule: "int32.gte 0",
    shape: int32,
    given: { type: { case: "int32", value: { gte: 0 } } },
    good: [0],
    bad: [-1],
  },
  {
    rule: "int32.gte and lte of one value",
    shape: int32,
    given: { type: { case: "int32", value: { gte: 3, lte: 3 } } },
    good: [3],
    bad: [2, 4],
  },
  {
    rule: "int32 outside of a range",
    shape: int32,
    given: { type: { case: "int32", value: { lt: 0, gte: 10 } } },
    good: [-1, 10],
    bad: [0, 9],
  },
  {
    rule: "int64.gt beyond doubles",
    shape: int64,
    given: { type: { case: "int64", value: { gt: 2n ** 53n } } },
    good: ["9007199254740993"],
    bad: ["9007199254740992"],
  },
  {
    rule: "int64.in",
    shape: int64,
    given: { type: { case: "int64", value: { in: [1n, 5n] } } },
    good: [1, 5],
    bad: [2],
  },
  {
    rule: "int64.not_in",
    shape: int64,
    given: { type: { case: "int64", value: { notIn: [1n] } } },
    good: [2],
    bad: [1],
  },
  {
    rule: "double.lt",
    shape: double,
    given: { type: { case: "double", value: { lt: 1.5 } } },
    good: [1.4, "-Infinity"],
    bad: [1.5, "NaN"],
  },
  {
    rule: "bool.const",
    shape: { type: Type.BOOL },
    given: { type: { case: "bool", value: { const: true } } },
    good: [true],
    bad: [false],
  },
  {
    rule: "bytes.min_len",
    shape: bytes,
    given: { type: { case: "bytes", value: { minLen: 1n, maxLen: 2n } } },
    good: [b64("ab")],
    bad: ["", b64("abc")],
  },
  {
    rule: "bytes.prefix, suffix, contains",
    shape: bytes,
    given: {
      type: { case: "bytes", value: { prefix: bin("a"), suffix: bin("c"), contains: bin("bb") } },
    },
    good: [b64("abbc")],
    bad: [b64("abc"), b64("bbc"), b64("abb")],
  },
  {
    rule: "bytes.const",
    shape: bytes,
    given: { type: { case: "bytes", value: { const: bin("a") } } },
    good: [b64("a")],
    bad: [b64("b"), b64("aa")],
  },
  {
    rule: "bytes.in, not_in",
    shape: bytes,
    given: { type: { case: "bytes", value: { in: [bin("a"), bin("b")], notIn: [bin("b")] } } },
    good: [b64("a")],
    bad: [b64("b"), b64("c")],
  },
  {
    rule: "enum.defined_only",
    shape: enumeration,
    given: { type: { case: "enum", value: { definedOnly: true } } },
    good: [0, 2],
    bad: [1, -1],
  },
  {
    rule: "enum.defined_only false",
    shape: enumeration,
    given: { type: { case: "enum", value: { definedOnly: false } } },
    good: [0, 1, -1],
    bad: [],
  },
  {
    rule: "enum.in",
    shape: enumeration,
    given: { type: { case: "enum", value: { in: [2] } } },
    good: [2],
    bad: [0],
  },
  {
    rule: "enum.not_in",
    shape: enumeration,
    given: { type: { case: "enum", value: { notIn: [2] } } },
    good: [0, 7],
    bad: [2],
  },
  {
    rule: "enum.const",
    shape: enumeration,
    given: { type: { case: "enum", value: { const: 2 } } },
    good: [2],
    bad: [0],
  },
  {
    rule: "duration.required",
    shape: duration,
    given: { type: { case: "duration", value: { required: true } } },
    good: ["0s"],
    bad: [null],
  },
  {
    rule: "duration.gt",
    shape: duration,
    given: { type: { case: "duration", value: { gt: {} } } },
    good: ["0.000000001s", null],
    bad: ["0s", "-1s"],
  },
  {
    rule: "duration.lte and gte",
    shape: duration,
    given: { type: { case: "duration", value: { gte: seconds(1), lte: seconds(2) } } },
    good: ["1s", "2s"],
    bad: ["0.999s", "2.000000001s"],
  },
  {
    rule: "duration.in",
    shape: duration,
    given: { type: { case: "duration", value: { in: [seconds(1), seconds(3)] } } },
    good: ["3s"],
    bad: ["2s"],
  },
  {
    rule: "timestamp.gt",
    shape: timestamp,
    given: { type: { case: "timestamp", value: { gt: seconds(0) } } },
    good: ["1970-01-01T00:00:01Z"],
    bad: ["1970-01-01T00:00:00Z"],
  },
  {
    rule: "any.required",
    shape: { type: Type.MESSAGE, typeName: ".google.protobuf.Any" },
    given: { type: { case: "any", value: { required: true } } },
    good: [{}],
    bad: [null],
  },
  {
    rule: "message.required",
    shape: { type: Type.MESSAGE, typeName: ".t.Inner" },
    given: { message: { required: true } },
    good: [{ f: "a" }],
    bad: [null, {}],
  },
  {
    rule: "message.skip",
    shape: { type: Type.MESSAGE, typeName: ".t.Inner" },
    given: { message: { skip: true } },
    good: [null, {}],
    bad: [],
  },
  {
    rule: "repeated.min_items and max_items",
    shape: list,
    given: { type: { case: "repeated", value: { minItems: 1n, maxItems: 2n } } },
    good: [["a"], ["a", "a"]],
    bad: [[], ["a", "b", "c"]],
  },
  {
    rule: "repeated.unique",
    shape: list,
    given: { type: { case: "repeated", value: { unique: true } } },
    good: [[], ["a", "b"]],
    bad: [["a", "a"]],
  },
  {
    rule: "repeated.items",
    shape: list,
    given: { type: { case: "repeated", value: { items: string({ minLen: 1n }) } } },
    good: [[], ["a"]],
    bad: [["a", ""]],
  },
];

for (const { rule, shape = {}, given, good, bad } of CASES)
  test(rule, () => {
    const desc = described({ fields: [field("f", 1, shape, given)] });
    for (const value of good)
      assert.deepEqual(broken(desc, { f: value }), [], JSON.stringify(value));
    for (const value of bad) {
      const found = broken(desc, { f: value });
      assert.equal(found.length, 1, JSON.stringify(value));
      assert.match(found[0] ?? "", /^f(\.f|\[1\])?: /);
    }
  });

test("fields without rules and empty rules accept everything", () => {
  const desc = described({ fields: [field("f", 1, {}), field("g", 2, {}, string({}))] });
  assert.deepEqual(broken(desc, { f: "", g: "" }), []);
});

test("a required oneof needs an arm, and only the rules of the arm that is set apply", () => {
  const fields = [
    field("f", 1, { oneofIndex: 0 }, string({ minLen: 2n })),
    field("g", 2, { oneofIndex: 0 }),
  ];
  const free = described({ fields, oneof: "plain" });
  assert.deepEqual(broken(free, {}), []);
  assert.deepEqual(broken(free, { g: "" }), []);
  assert.equal(broken(free, { f: "a" }).length, 1);
  const bound = described({ fields, oneof: "required" });
  assert.deepEqual(broken(bound, {}), ["choice: one of its fields, none"]);
  assert.deepEqual(broken(bound, { g: "" }), []);
});

test("messages in lists are validated, unless validation of their type is disabled", () => {
  const inner = field("f", 1, { type: Type.MESSAGE, typeName: ".t.Inner", ...list });
  const json = { f: [{ f: "a" }, { f: "" }] };
  assert.deepEqual(broken(described({ fields: [inner] }), json), [
    "f[1].f: a string of at least 1 character, an empty string",
  ]);
  assert.deepEqual(broken(described({ fields: [inner], disabled: true }), json), []);
});

test("recursive message types are validated at any depth", () => {
  const self = field("f", 1, { type: Type.MESSAGE, typeName: ".t.M" });
  const name = field("g", 2, {}, string({ prefix: "x" }));
  const desc = described({ fields: [self, name] });
  const found = broken(desc, { g: "x", f: { g: "x", f: { g: "y" } } });
  assert.deepEqual(found, ["f.f.g: a string that starts with x, another string"]);
});

test("maps: number of pairs, keys and values are validated, and no violation contains a key", () => {
  const given: Rules = {
    type: {
      case: "map",
      value: {
        minPairs: 1n,
        maxPairs: 2n,
        keys: string({ maxLen: 3n }),
        values: string({ minLen: 1n }),
      },
    },
  };
  const entry = { name: "FEntry", options: { mapEntry: true } };
  const made = field("f", 1, { type: Type.MESSAGE, typeName: ".t.M.FEntry", ...list }, given);
  const file = create(FileDescriptorProtoSchema, {
    name: "t.proto",
    package: "t",
    syntax: "proto3",
    messageType: [
      {
        name: "M",
        field: [made],
        nestedType: [{ ...entry, field: [field("key", 1, {}), field("value", 2, {})] }],
      },
    ],
  });
  const desc = createFileRegistry(file, () => undefined).getMessage("t.M");
  assert.ok(desc);
  assert.deepEqual(broken(desc, { f: { a: "1" } }), []);
  assert.deepEqual(broken(desc, { f: {} }), ["f: at least 1 pair, 0 pairs"]);
  assert.deepEqual(broken(desc, { f: { a: "1", b: "2", c: "3" } }), [
    "f: at most 2 pairs, 3 pairs",
  ]);
  assert.deepEqual(broken(desc, { f: { secret: "" } }), [
    "f{key}: a string of at most 3 characters, another string",
    "f{}: a string of at least 1 character, an empty string",
  ]);
});

test("compiling an unsupported rule throws", () => {
  const email = string({ wellKnown: { case: "email", value: true } });
  const desc = described({ fields: [field("f", 1, {}, email)] });
  assert.throws(() => compileRules(desc), /string\.email is not supported/);
});

test("the rules in Sluice's own proto files", () => {
  const socket = compileRules(SocketAddressSchema);
  const of = (init: MessageInitShape<typeof SocketAddressSchema>): string[] =>
    socket(create(SocketAddressSchema, init)).map((violation) => violation.field);
  assert.deepEqual(of({ address: "::1", port: 65535, protocol: 1 }), []);
  assert.deepEqual(of({ address: "", port: 65536, protocol: 2 }), ["protocol", "address", "port"]);
  const post = compileRules(PostDynamicConfigRequestSchema);
  const request = (init: MessageInitShape<typeof PostDynamicConfigRequestSchema>): string[] =>
    post(create(PostDynamicConfigRequestSchema, init)).map((violation) => violation.field);
  assert.deepEqual(request({}), ["policy_name", "dynamic_config"]);
  assert.deepEqual(request({ policyName: "p", dynamicConfig: {} }), []);
});

test("the fault names every broken rule and contains no value", () => {
  const validator = new MessageValidator();
  validator.validate(SocketAddressSchema, create(SocketAddressSchema, { address: "::1" }));
  assert.throws(
    () => validator.validate(SocketAddressSchema, create(SocketAddressSchema, { port: 70000 })),
    new Fault(
      "INVALID_ARGUMENT",
      "address: wanted a string of at least 1 character, got an empty string; port: wanted a number of at most 65535, got another number",
    ),
  );
});
