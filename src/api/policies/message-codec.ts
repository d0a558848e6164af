// Messages of the policy service to and from JSON objects with the same field names. The library for it is imported
// by the first call.

import type { DescMessage, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "#base/fault.ts";
import { ProtoReader } from "#wire/protobuf/reader.ts";
import { type Json, wanted } from "./request.ts";
import type { PolicyRequestValidator } from "./request-validator.ts";

export class PolicyMessageCodec {
  readonly #validator: PolicyRequestValidator;

  constructor(validator: PolicyRequestValidator) {
    this.#validator = validator;
  }

  /**
   * The request of a method, validated. Unset fields are left out, so that a document gets its defaults.
   * @throws Fault INVALID_ARGUMENT, RESOURCE_EXHAUSTED
   */
  async decode(rpc: string, message: Uint8Array): Promise<Json> {
    const { input } = await this.#validator.method(rpc);
    const { fromBinary, toJson } = await import("@bufbuild/protobuf");
    const read = decoded(input, message, fromBinary);
    await this.#validator.validateMessage(input, read);
    return toJson(input, read, { useProtoFieldName: true }) as Json;
  }

  /** The reply of a method. */
  async encode(rpc: string, reply: Json): Promise<Uint8Array> {
    const { output } = await this.#validator.method(rpc);
    const { fromJson, toBinary } = await import("@bufbuild/protobuf");
    const { registry } = await import("#wire/protobuf/descriptors.ts");
    const json = JSON.parse(JSON.stringify(reply)) as JsonValue;
    return toBinary(output, fromJson(output, json, { ignoreUnknownFields: true, registry }));
  }
}

function decoded(
  input: DescMessage,
  message: Uint8Array,
  fromBinary: typeof import("@bufbuild/protobuf").fromBinary,
) {
  boundStructs(input, message);
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

const STRUCT = "google.protobuf.Struct";
/** Overrides for a policy take some hundred bytes, and the library needs 1 µs for each byte of a Struct. */
const MAX_CONFIG = 256 * 1024;

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
