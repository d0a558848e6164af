// All messages and services by full name, as @bufbuild/protobuf describes them. Importing this file loads the library and
// reads the descriptor set, so import it lazily.

import { readFileSync } from "node:fs";
import { createFileRegistry, type FileRegistry, fromBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
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
