// gRPC server reflection, v1 and the older v1alpha (same messages): which services are here, and the files
// that describe them. Descriptors are loaded at the first question.

import protobuf from "protobufjs/minimal.js";
import { CODES, Fault } from "#base/fault.ts";
import type { Service, StreamHandler } from "../handler.ts";
import type { Descriptors } from "../settings.ts";

/** Fields of ServerReflectionRequest; `host` is 1. */
const ASK = {
  fileByName: 3,
  fileOfSymbol: 4,
  fileOfExtension: 5,
  extensionNumbers: 6,
  services: 7,
};
/** Fields of ServerReflectionResponse. */
const ANSWER = { host: 1, request: 2, files: 4, services: 6, error: 7 };

const bytesField = (field: number) => (field << 3) | 2;

/** Both services. `names` lists what `list_services` answers, these two included. */
export function reflectionOf(
  names: () => readonly string[],
  descriptors: () => Promise<Descriptors>,
): readonly Service[] {
  let loading: Promise<Descriptors> | undefined;
  const handle: StreamHandler = async ({ messages, send }) => {
    loading ??= descriptors();
    const known = await loading;
    for await (const message of messages) await send(answer(message, names(), known));
  };
  const methods = {
    ServerReflectionInfo: { kind: "stream", client: true, server: true, handle },
  } as const;
  return ["v1", "v1alpha"].map((version) => ({
    name: `grpc.reflection.${version}.ServerReflection`,
    healthNames: [],
    methods,
  }));
}

interface Question {
  readonly host: string;
  readonly field: number;
  readonly text: string;
}

function read(message: Uint8Array): Question {
  const question = { host: "", field: 0, text: "" };
  try {
    const reader = protobuf.Reader.create(message);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      const field = tag >>> 3;
      if ((tag & 7) !== 2) reader.skipType(tag & 7);
      else if (field === 1) question.host = reader.string();
      else if (field === ASK.fileOfExtension) {
        question.field = field;
        reader.skipType(2);
      } else if (Object.values(ASK).includes(field)) {
        question.field = field;
        question.text = reader.string();
      } else reader.skipType(2);
    }
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "wanted a ServerReflectionRequest, got other bytes", {
      cause,
    });
  }
  return question;
}

function answer(message: Uint8Array, names: readonly string[], known: Descriptors): Uint8Array {
  const { host, field, text } = read(message);
  const writer = protobuf.Writer.create();
  writer.uint32(bytesField(ANSWER.host)).string(host);
  writer.uint32(bytesField(ANSWER.request)).bytes(message);
  switch (field) {
    case ASK.services:
      writer.uint32(bytesField(ANSWER.services)).fork();
      for (const name of names) {
        writer.uint32(bytesField(1)).fork().uint32(bytesField(1)).string(name).ldelim();
      }
      writer.ldelim();
      break;
    case ASK.fileByName:
      writeFiles(writer, known.fileByName(text));
      break;
    case ASK.fileOfSymbol:
      writeFiles(writer, known.fileContainingSymbol(text));
      break;
    case ASK.fileOfExtension:
    case ASK.extensionNumbers:
      // Nothing that is served here uses extensions.
      writeError(writer, "NOT_FOUND", "no extensions here");
      break;
    default:
      writeError(writer, "INVALID_ARGUMENT", "the request asks for nothing that is known here");
  }
  return writer.finish();
}

function writeFiles(writer: protobuf.Writer, files: readonly Uint8Array[] | undefined): void {
  if (files === undefined) {
    writeError(writer, "NOT_FOUND", "no such file or symbol");
    return;
  }
  writer.uint32(bytesField(ANSWER.files)).fork();
  for (const file of files) writer.uint32(bytesField(1)).bytes(file);
  writer.ldelim();
}

function writeError(
  writer: protobuf.Writer,
  code: "NOT_FOUND" | "INVALID_ARGUMENT",
  message: string,
): void {
  writer.uint32(bytesField(ANSWER.error)).fork();
  writer.uint32(8).int32(CODES[code].number);
  writer.uint32(bytesField(2)).string(message).ldelim();
}
