// Makes src/wire/gen from the protos: TypeScript descriptors (buf + protoc-gen-es) and lean JSON bundles
// that protobufjs reads. Envoy's and Google's protos are read from installed packages, so this
// works without a network. `--check` makes everything in a temporary folder and compares byte for byte.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import protobuf, { type ReflectionObject } from "protobufjs";

const { Enum, MapField, Namespace, Root, Type } = protobuf;

const ROOT = resolve(import.meta.dirname, "..");
const GENERATED = "src/wire/gen";
const DEPS = "node_modules/@grpc/grpc-js-xds/deps";
const ENVOY = `${DEPS}/envoy-api/envoy/service/auth/v3/external_auth.proto`;
const ENVOY_MESSAGES = ["CheckRequest", "CheckResponse"].map((m) => `envoy.service.auth.v3.${m}`);

/** Where imports are looked up, ours first. */
const MODULES = [
  { path: "proto" },
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

/** Descriptors and types of all protos of ours, of ext_authz and of whatever they import. */
function descriptors(out: string): void {
  const plugin = {
    local: "./node_modules/.bin/protoc-gen-es",
    out,
    include_imports: true,
    opt: ["target=ts", "import_extension=ts", "erasable_syntax=true"],
  };
  run("buf", [
    "generate",
    ...["--config", JSON.stringify({ version: "v2", modules: MODULES })],
    ...["--template", JSON.stringify({ version: "v2", plugins: [plugin] })],
    ...["--path", "proto/aperture", "--path", "proto/grpc", "--path", ENVOY],
  ]);
}

/**
 * What protobufjs needs to encode and decode the messages that `wanted` names and all they hold, by full
 * name: names, numbers, types. Services, comments and options other than presence and packing are left
 * out, for this is read at start.
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

/** What others wrote about their messages stays with them: of their files only the code is kept. */
function dropForeignComments(out: string): void {
  for (const file of globSync("**/*.ts", { cwd: out })) {
    if (file.startsWith("aperture/")) continue;
    const path = join(out, file);
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(/^[ \t]*\/\*\*[\s\S]*?\*\/\n/gm, ""));
  }
}

function generate(out: string): void {
  descriptors(out);
  dropForeignComments(out);
  const ours = globSync("proto/aperture/**/*.proto", { cwd: ROOT }).sort();
  bundle(join(out, "aperture.json"), ours, (name) => name.startsWith("aperture."));
  bundle(join(out, "ext-authz.json"), [ENVOY], (name) => ENVOY_MESSAGES.includes(name));
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
// Copied with the folder: what is committed is for every user to read.
chmodSync(scratch, 0o755);
try {
  generate(scratch);
  const stale = differences(scratch, committed);
  if (!process.argv.includes("--check")) {
    rmSync(committed, { recursive: true, force: true });
    cpSync(scratch, committed, { recursive: true });
  } else if (stale.length > 0) {
    process.stderr.write(`not what the protos say (run \`make proto\`):\n${stale.join("\n")}\n`);
    process.exitCode = 1;
  }
} finally {
  rmSync(scratch, { recursive: true });
}
