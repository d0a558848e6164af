// Generates proto/gen: the protos of the policy language from its tables, and from all protos TypeScript descriptors
// (buf with protoc-gen-es) and JSON bundles that protobufjs reads. Protos of Envoy and Google come from installed
// packages, so no network is needed.
// `--check` changes nothing: it generates into a temporary folder and compares the result byte for byte.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

import protobuf, { type ReflectionObject } from "protobufjs";
import { languageProto } from "./language.ts";

const { Enum, MapField, Namespace, Root, Type } = protobuf;

const ROOT = resolve(import.meta.dirname, "..");
const GENERATED = "proto/gen";
/** The messages of the policy language, which protos by hand import. */
const LANGUAGE = "aperture/policy/language/v1/language.proto";
const DEPS = "node_modules/@grpc/grpc-js-xds/deps";
const ENVOY = `${DEPS}/envoy-api/envoy/service/auth/v3/external_auth.proto`;
const ACCESS_LOG = `${DEPS}/envoy-api/envoy/service/accesslog/v3/als.proto`;
const ENVOY_MESSAGES = ["CheckRequest", "CheckResponse"].map((m) => `envoy.service.auth.v3.${m}`);
const ACCESS_LOG_MESSAGE = "envoy.service.accesslog.v3.StreamAccessLogsMessage";

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

/** Writes descriptors and types of Sluice's protos, of ext_authz, of Envoy's access log and of everything that they import. */
function descriptors(out: string): void {
  const plugin = {
    local: "./node_modules/.bin/protoc-gen-es",
    out,
    include_imports: true,
    opt: ["target=ts", "import_extension=ts", "erasable_syntax=true"],
  };
  run("buf", [
    "generate",
    "--config",
    JSON.stringify({ version: "v2", modules: MODULES }),
    "--template",
    JSON.stringify({ version: "v2", plugins: [plugin] }),
    "--path",
    "proto/aperture",
    "--path",
    "proto/etcdserverpb",
    "--path",
    "proto/grpc",
    "--path",
    "proto/opentelemetry",
    "--path",
    "proto/sluice",
    "--path",
    ENVOY,
    "--path",
    ACCESS_LOG,
  ]);
}

/**
 * Writes what protobufjs needs to encode and decode the `wanted` messages and all messages inside them: names,
 * numbers and types, by full name. Services, comments and all options except presence and packing are left out,
 * because processes load this file when they start.
 */
function bundle(out: string, files: readonly string[], wanted: (name: string) => boolean): void {
  const root = new Root();
  root.resolvePath = (_origin, target) =>
    [...MODULES.map(({ path }) => path), "node_modules/protobufjs"]
      .map((folder) => join(ROOT, folder, target))
      .find(existsSync) ?? target;
  root.loadSync(files.map((file) => join(ROOT, file)));
  root.resolveAll();
  const kept: Record<string, object> = {};
  const keep = (object: ReflectionObject): void => {
    const name = object.fullName.slice(1);
    if (name in kept) return;
    if (object instanceof Enum) kept[name] = { values: object.values };
    if (!(object instanceof Type)) return;
    kept[name] = members(object);
    for (const { resolvedType } of object.fieldsArray)
      if (resolvedType !== null) keep(resolvedType);
  };
  const visit = (object: ReflectionObject): void => {
    if (wanted(object.fullName.slice(1))) keep(object);
    if (object instanceof Namespace) for (const child of object.nestedArray) visit(child);
  };
  visit(root);
  const lines = Object.entries(kept)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, type]) => `${JSON.stringify(name)}: ${JSON.stringify(type)}`);
  writeFileSync(out, `{\n${lines.join(",\n")}\n}\n`);
}

function members(type: protobuf.Type): object {
  const fields = type.fieldsArray.map((field) => {
    const { id, rule } = field;
    const key = field instanceof MapField ? { keyType: field.keyType } : {};
    const options = Object.entries(field.options ?? {}).filter(([name]) =>
      ["packed", "proto3_optional"].includes(name),
    );
    return [
      field.name,
      {
        ...key,
        ...(rule === undefined ? {} : { rule }),
        type: field.resolvedType?.fullName.slice(1) ?? field.type,
        id,
        ...(options.length === 0 ? {} : { options: Object.fromEntries(options) }),
      },
    ];
  });
  const oneofs = type.oneofsArray.map(({ name, oneof }) => [name, { oneof }]);
  return {
    ...(oneofs.length === 0 ? {} : { oneofs: Object.fromEntries(oneofs) }),
    fields: Object.fromEntries(fields),
  };
}

/** Removes comments for a linter that is not used here, and those of other projects' protos. */
function dropForeignComments(out: string): void {
  for (const file of globSync("**/*.ts", { cwd: out })) {
    const path = join(out, file);
    const text = readFileSync(path, "utf8").replace("/* eslint-disable */\n", "");
    const isOurs = /^(aperture|sluice)\//.test(file);
    writeFileSync(path, isOurs ? text : text.replaceAll(/^[ \t]*\/\*\*[\s\S]*?\*\/\n/gm, ""));
  }
}

/** The declaration of a message in generated code: its TypeScript name and its full name. */
const MESSAGE_TYPE = /^export type (\w+) = Message<"([\w.]+)">/gm;

/** Writes the types of all messages of Sluice and of etcd by full name. */
function messagesByName(out: string): void {
  const files = globSync("{aperture,etcdserverpb,sluice}/**/*_pb.ts", { cwd: out }).sort();
  const alias = (file: string) => file.replaceAll(/[^a-z0-9]/g, "_");
  const members = files.flatMap((file) =>
    [...readFileSync(join(out, file), "utf8").matchAll(MESSAGE_TYPE)].map(
      ([, type, name]) => `  readonly "${name}": ${alias(file)}.${type};`,
    ),
  );
  const lines = [
    "// The messages described in this folder, by full name. Generated; do not edit.",
    "",
    ...files.map((file) => `import type * as ${alias(file)} from "./${file}";`),
    "",
    "export interface MessagesByName {",
    ...members,
    "}",
  ];
  writeFileSync(join(out, "messages-by-name.ts"), `${lines.join("\n")}\n`);
}

function writeLanguage(out: string): void {
  const file = join(out, LANGUAGE);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, languageProto());
}

function generate(out: string): void {
  writeLanguage(out);
  descriptors(out);
  dropForeignComments(out);
  messagesByName(out);
  const ours = globSync("proto/{aperture,etcdserverpb,sluice}/**/*.proto", { cwd: ROOT }).sort();
  bundle(join(out, "aperture.json"), ours, (name) =>
    /^(aperture|etcdserverpb|sluice)\./.test(name),
  );
  bundle(join(out, "ext-authz.json"), [ENVOY], (name) => ENVOY_MESSAGES.includes(name));
  bundle(join(out, "access-log.json"), [ACCESS_LOG], (name) => name === ACCESS_LOG_MESSAGE);
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
