// Generates proto/gen: the protos of the policy language from its tables, one binary descriptor set of all protos, which
// both protobuf libraries read, and the TypeScript types of its messages. Protos of Envoy and Google come from installed
// packages, so no network is needed.
// `--check` changes nothing: it generates into a temporary folder and compares the result byte for byte.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

import {
  createFileRegistry,
  type DescField,
  type DescMessage,
  type DescOneof,
  type FileRegistry,
  fromBinary,
  ScalarType,
} from "@bufbuild/protobuf";
import {
  Edition,
  FeatureSet_FieldPresence,
  FileDescriptorSetSchema,
  isWrapperDesc,
} from "@bufbuild/protobuf/wkt";
import { languageProto } from "./language.ts";

const ROOT = resolve(import.meta.dirname, "..");
const GENERATED = "proto/gen";
/** The messages of the policy language, which protos by hand import. */
const LANGUAGE = "aperture/policy/language/v1/language.proto";
const DEPS = "node_modules/@grpc/grpc-js-xds/deps";

/** The protos that are described, with everything that they import. */
const DESCRIBED = [
  "proto/aperture",
  "proto/etcdserverpb",
  "proto/grpc",
  "proto/opentelemetry",
  "proto/sluice",
  `${DEPS}/envoy-api/envoy/service/auth/v3/external_auth.proto`,
  `${DEPS}/envoy-api/envoy/service/accesslog/v3/als.proto`,
];

/** Where imports are looked up, this repository's own protos first. */
const MODULES = [
  { path: "proto", excludes: [GENERATED] },
  { path: GENERATED },
  { path: `${DEPS}/envoy-api` },
  { path: `${DEPS}/googleapis` },
  { path: `${DEPS}/xds` },
  {
    path: `${DEPS}/protoc-gen-validate`,
    excludes: [`${DEPS}/protoc-gen-validate/tests`, `${DEPS}/protoc-gen-validate/java`],
  },
];

function run(command: string, args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(join("node_modules/.bin", command), args, {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ended with ${status}\n${stdout}${stderr}`);
}

/** Compiles the protos to a FileDescriptorSet without comments. */
function compile(out: string): void {
  run("buf", [
    "build",
    "--config",
    JSON.stringify({ version: "v2", modules: MODULES }),
    "--as-file-descriptor-set",
    "--exclude-source-info",
    "--output",
    out,
    ...DESCRIBED.flatMap((path) => ["--path", path]),
  ]);
}

/** TypeScript types of scalars; all others are numbers. */
const SCALARS: Readonly<Partial<Record<ScalarType, string>>> = {
  [ScalarType.STRING]: "string",
  [ScalarType.BOOL]: "boolean",
  [ScalarType.BYTES]: "Uint8Array",
  [ScalarType.INT64]: "bigint",
  [ScalarType.UINT64]: "bigint",
  [ScalarType.SINT64]: "bigint",
  [ScalarType.FIXED64]: "bigint",
  [ScalarType.SFIXED64]: "bigint",
};

/** The types of all messages by full name, as @bufbuild/protobuf represents them. */
function typesOf(registry: FileRegistry): string {
  const library = new Set<string>();
  const messages = [...registry]
    .filter((desc) => desc.kind === "message")
    .filter(({ typeName }) => !isWellKnown(typeName))
    .sort((a, b) => (a.typeName < b.typeName ? -1 : 1))
    .flatMap((desc) => membersOf(desc, library));
  return [
    "// Types of all messages, by full name, as @bufbuild/protobuf represents them. Generated; do not edit.",
    "",
    'import type { JsonObject, Message } from "@bufbuild/protobuf";',
    `import type { ${[...library].sort().join(", ")} } from "@bufbuild/protobuf/wkt";`,
    "",
    "export interface MessagesByName {",
    ...messages,
    "}",
    "",
  ].join("\n");
}

function isWellKnown(typeName: string): boolean {
  return typeName.startsWith("google.protobuf.");
}

/** Adds to `library` the names of the types that the library defines. */
function membersOf({ typeName, members }: DescMessage, library: Set<string>): string[] {
  const lines = members.map((member) =>
    member.kind === "oneof" ? oneofLine(member, library) : fieldLine(member, library),
  );
  const message = `  readonly "${typeName}": Message<"${typeName}">`;
  return lines.length === 0 ? [`${message};`] : [`${message} & {`, ...lines, "  };"];
}

function oneofLine({ localName, fields }: DescOneof, library: Set<string>): string {
  const arms = fields.map(
    (field) => `{ case: "${field.localName}"; value: ${valueType(field, library)} }`,
  );
  return `    ${localName}: ${[...arms, "{ case: undefined; value?: undefined }"].join(" | ")};`;
}

function fieldLine(field: DescField, library: Set<string>): string {
  const { localName, fieldKind, presence, parent } = field;
  // Scalars of proto2 read as their default value where they are unset.
  const isOptional =
    fieldKind === "message" ||
    (presence === FeatureSet_FieldPresence.EXPLICIT &&
      parent.file.edition !== Edition.EDITION_PROTO2);
  const type = fieldType(field, library);
  return `    ${localName}${isOptional ? "?" : ""}: ${type}${isOptional ? " | undefined" : ""};`;
}

function fieldType(field: DescField, library: Set<string>): string {
  const value = valueType(field, library);
  if (field.fieldKind === "list") return `${value}[]`;
  return field.fieldKind === "map" ? `{ [key: string]: ${value} }` : value;
}

/** The type of a singular field, of an item of a list or of a value of a map. */
function valueType(field: DescField, library: Set<string>): string {
  const { message, scalar, fieldKind } = field;
  if (scalar !== undefined) return SCALARS[scalar] ?? "number";
  if (message === undefined) return "number";
  if (message.typeName === "google.protobuf.Struct") return "JsonObject";
  if (!isWellKnown(message.typeName)) return `MessagesByName["${message.typeName}"]`;
  if (isWrapperDesc(message) && fieldKind === "message" && field.oneof === undefined)
    return SCALARS[message.fields[0].scalar] ?? "number";
  library.add(message.name);
  return message.name;
}

function writeLanguage(out: string): void {
  const file = join(out, LANGUAGE);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, languageProto());
}

function generate(out: string): void {
  writeLanguage(out);
  const set = join(out, "descriptors.binpb");
  compile(set);
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(set)));
  writeFileSync(join(out, "messages-by-name.ts"), typesOf(registry));
}

function differences(left: string, right: string): string[] {
  const list = (folder: string): string[] =>
    globSync("**/*", { cwd: folder, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  return [...new Set([...list(left), ...list(right)])].sort().filter((file) => {
    try {
      return !readFileSync(join(left, file)).equals(readFileSync(join(right, file)));
    } catch {
      return true;
    }
  });
}

const committed = join(ROOT, GENERATED);
const scratch = mkdtempSync(join(tmpdir(), "sluice-gen-"));
// The mode is copied with the folder, and committed files must be readable by everyone.
chmodSync(scratch, 0o755);
const isCheck = process.argv.includes("--check");
try {
  // Other protos import it from there.
  if (!isCheck) writeLanguage(committed);
  generate(scratch);
  const stale = differences(scratch, committed);
  if (!isCheck) {
    rmSync(committed, { recursive: true, force: true });
    cpSync(scratch, committed, { recursive: true });
  } else if (stale.length > 0) {
    process.stderr.write(
      `generated files are out of date (run \`make proto\`):\n${stale.join("\n")}\n`,
    );
    process.exitCode = 1;
  }
} finally {
  rmSync(scratch, { recursive: true });
}
