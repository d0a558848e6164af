// All messages and services by full name, as @bufbuild/protobuf describes them, and the data of server reflection.
// Importing this file loads the library and reads the descriptor set, so import it lazily.

import { readFileSync } from "node:fs";
import {
  type AnyDesc,
  createFileRegistry,
  type DescFile,
  type FileRegistry,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { DESCRIPTOR_SET } from "./definitions.ts";
import type { MessageName } from "./message-types.ts";

export const registry: Readonly<FileRegistry> = createFileRegistry(
  fromBinary(FileDescriptorSetSchema, readFileSync(DESCRIPTOR_SET)),
);

/** The type of a message. @throws Error for an unknown name */
export function schemaOf<Name extends MessageName>(name: Name): GenMessage<MessagesByName[Name]> {
  const schema = registry.getMessage(name);
  if (schema === undefined) throw new Error(`${name} is not a known message`);
  return schema as GenMessage<MessagesByName[Name]>;
}

/** A service, and the methods of it that answer, as the keys of a record. */
export interface ServedService {
  readonly name: string;
  readonly methods: Readonly<Record<string, unknown>>;
}

/** The data of a reflection service. Files are serialized: the requested one first, then all that it imports. */
export interface Descriptors {
  /** All requested service names, even those without a descriptor. */
  services(): readonly string[];
  /** By full name of a service, method, message, field, oneof, enum, enum value or extension. */
  fileContainingSymbol(name: string): Uint8Array[] | undefined;
  /** By import path, such as `aperture/info/v1/info.proto`. */
  fileByName(name: string): Uint8Array[] | undefined;
}

/**
 * Loads the descriptors of these services without methods and services that do not answer. A service without a descriptor
 * is listed but has no file.
 */
export function descriptorsOf(served: readonly ServedService[]): Descriptors {
  const names = served.map(({ name }) => name);
  const methods = new Set(
    served.flatMap((service) =>
      Object.keys(service.methods).map((name) => `${service.name}.${name}`),
    ),
  );
  const answers = (service: string, method: string) => methods.has(`${service}.${method}`);
  const files = new Map<string, DescFile>();
  for (const name of names) {
    const file = registry.getService(name)?.file;
    for (const each of file === undefined ? [] : withImports(file)) files.set(pathOf(each), each);
  }
  const symbols = new Map<string, DescFile>();
  for (const file of files.values())
    for (const desc of nestedTypes(file)) {
      const service = desc.kind === "service" ? desc.typeName : undefined;
      if (service !== undefined && !names.includes(service)) continue;
      for (const name of symbolsOf(desc))
        if (service === undefined || name === service || methods.has(name)) symbols.set(name, file);
    }
  const encode = ({ proto }: DescFile): Uint8Array => {
    const of = (name: string) => (proto.package === "" ? name : `${proto.package}.${name}`);
    const service = proto.service
      .filter(({ name }) => names.includes(of(name)))
      .map((each) => ({
        ...each,
        method: each.method.filter(({ name }) => answers(of(each.name), name)),
      }));
    return toBinary(FileDescriptorProtoSchema, { ...proto, service });
  };
  const serialized = (file: DescFile | undefined): Uint8Array[] | undefined =>
    file && withImports(file).map(encode);
  return {
    services: () => names,
    fileContainingSymbol: (name) => serialized(symbols.get(name)),
    fileByName: (name) => serialized(files.get(name)),
  };
}

/** A file, then all its direct and indirect imports, each once. */
function withImports(file: DescFile): DescFile[] {
  const found = new Set<DescFile>();
  const visit = (each: DescFile): void => {
    if (found.has(each)) return;
    found.add(each);
    for (const dependency of each.dependencies) visit(dependency);
  };
  visit(file);
  return [...found];
}

/** Path of a file. The library stores it without its extension. */
function pathOf(file: DescFile): string {
  return `${file.name}.proto`;
}

/** The full names that a descriptor defines. Enum values are siblings of their enum, as in C++. */
function symbolsOf(desc: AnyDesc): string[] {
  if (!("typeName" in desc)) return [];
  const scope = desc.typeName.slice(0, desc.typeName.lastIndexOf(".") + 1);
  return [desc.typeName, ...membersOf(desc, scope)];
}

function membersOf(desc: AnyDesc, scope: string): string[] {
  const member = ({ name }: { readonly name: string }): string => `${scope}${desc.name}.${name}`;
  if (desc.kind === "message") return [...desc.fields, ...desc.oneofs].map(member);
  if (desc.kind === "service") return desc.methods.map(member);
  return desc.kind === "enum" ? desc.values.map(({ name }) => scope + name) : [];
}
