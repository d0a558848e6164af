// Messages of an administration service to and from JSON objects with the same field names, validated by the rules in
// their proto file. The library for it is large, so the first call imports it.

import type { DescMessage, DescMethod, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "#base/fault.ts";
import { ProtoReader } from "#wire/protobuf/reader.ts";
import { type Json, wanted } from "./request.ts";

const STRUCT = "google.protobuf.Struct";
/** Overrides for a policy take some hundred bytes, and the library needs 1 µs for each byte of a Struct. */
const MAX_CONFIG = 256 * 1024;

export class ServiceMessages {
  readonly #service: string;

  /** `service` is the full name of the gRPC service. */
  constructor(service: string) {
    this.#service = service;
  }

  /**
   * The request of a method, validated. Unset fields are left out, so that a document gets its defaults.
   * @throws Fault INVALID_ARGUMENT, RESOURCE_EXHAUSTED
   */
  async decode(rpc: string, message: Uint8Array): Promise<Json> {
    const { library, validate, input } = await this.#load(rpc);
    boundStructs(input, message);
    const read = decoded(input, message, library.fromBinary);
    validate(input, read);
    return library.toJson(input, read, { useProtoFieldName: true }) as Json;
  }

  /** The reply of a method. */
  async encode(rpc: string, reply: Json): Promise<Uint8Array> {
    const { library, registry, output } = await this.#load(rpc);
    const json = JSON.parse(JSON.stringify(reply)) as JsonValue;
    const options = { ignoreUnknownFields: true, registry };
    return library.toBinary(output, library.fromJson(output, json, options));
  }

  /**
   * Validates the fields of a request in JSON (proto names), but not what is inside its message fields: documents
   * and configurations have readers of their own, with messages that fit the text. Members of a wrong type pass for
   * the same reason.
   * @throws Fault INVALID_ARGUMENT that names each field that breaks a rule, what was wanted and what was got
   */
  async validate(rpc: string, request: Json): Promise<void> {
    const { library, validate, input } = await this.#load(rpc);
    const fields = input.fields.flatMap((field) => {
      const value = request[field.name] ?? undefined;
      if (field.fieldKind === "message" && value !== undefined) return [[field.localName, {}]];
      return field.fieldKind === "scalar" && typeof value === "string"
        ? [[field.localName, value]]
        : [];
    });
    validate(input, library.create(input, Object.fromEntries(fields)));
  }

  async #load(rpc: string) {
    const [library, { registry }, { validate }] = await Promise.all([
      import("@bufbuild/protobuf"),
      import("#wire/protobuf/descriptors.ts"),
      import("#wire/protobuf/validation.ts"),
    ]);
    const methods: readonly DescMethod[] = registry.getService(this.#service)?.methods ?? [];
    const method = methods.find(({ name }) => name === rpc);
    if (method === undefined) throw new Error(`${this.#service}/${rpc} has no descriptor`);
    return { library, registry, validate, input: method.input, output: method.output };
  }
}

function decoded(
  input: DescMessage,
  message: Uint8Array,
  fromBinary: typeof import("@bufbuild/protobuf").fromBinary,
) {
  try {
    return fromBinary(input, message);
  } catch (cause) {
    const wanted = isEncodingError(cause) ? "texts in UTF-8" : `a serialized ${input.typeName}`;
    throw new Fault("INVALID_ARGUMENT", `wanted ${wanted}, got other bytes`, { cause });
  }
}

/** The code of the error that TextDecoder throws for bytes that are not UTF-8. */
function isEncodingError(thrown: unknown): boolean {
  const code = "ERR_ENCODING_INVALID_ENCODED_DATA";
  return thrown instanceof Error && "code" in thrown && thrown.code === code;
}

/**
 * Refuses messages that would be slow to decode: when a Struct comes in several parts, the library copies all
 * earlier parts for each further one, so that a message of a hundred thousand parts would take hours. No known
 * writer sends more than one part.
 */
function boundStructs(input: DescMessage, message: Uint8Array): void {
  const structs = input.fields.filter(({ message: type }) => type?.typeName === STRUCT);
  if (structs.length > 0 && message.length > MAX_CONFIG) {
    throw new Fault("RESOURCE_EXHAUSTED", `more than ${MAX_CONFIG} bytes of configuration`);
  }
  const reader = new ProtoReader(message);
  const seen = new Set<number>();
  while (structs.length > 0 && reader.at < reader.end) {
    const number = reader.tag(reader.end);
    const field = structs.find((each) => each.number === number);
    if (field !== undefined && seen.has(number)) throw wanted(field.name, "one part", "more");
    if (field !== undefined) seen.add(number);
    reader.skip(number, reader.end);
  }
}
