// gRPC server reflection, v1 and the older v1alpha (same messages): which services are here, and the files
// that describe them. Descriptors are loaded at the first question.

import { CODES } from "#base/fault.ts";
import type { Descriptors } from "#wire/descriptors.ts";
import { BYTES, ProtoReader } from "#wire/proto-reader.ts";
import { ProtoWriter } from "#wire/proto-writer.ts";
import type { Service, StreamHandler } from "../handler.ts";

/** Fields of ServerReflectionRequest; `host` is 1. */
const ASK = {
  fileByName: 3,
  fileOfSymbol: 4,
  fileOfExtension: 5,
  extensionNumbers: 6,
  services: 7,
} as const;
/** Fields of ServerReflectionResponse. */
const ANSWER = { host: 1, request: 2, files: 4, services: 6, error: 7 } as const;

const tagged = (field: number) => (field << 3) | BYTES;

const VERSIONS: readonly string[] = [
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
];

/** Both services, about themselves and the ones named. `load` is asked once. */
export function reflectionOf(
  served: readonly string[],
  load: (names: readonly string[]) => Promise<Descriptors>,
): readonly Service[] {
  const names = [...served, ...VERSIONS];
  let loading: Promise<Descriptors> | undefined;
  const handle: StreamHandler = async ({ messages, send }) => {
    loading ??= load(names);
    const known = await loading;
    for await (const message of messages) await send(answer(message, names, known));
  };
  const methods = {
    ServerReflectionInfo: { kind: "stream", client: true, server: true, handle },
  } as const;
  return VERSIONS.map((name) => ({ name, healthNames: [], methods }));
}

interface Question {
  readonly host: string;
  readonly field: number;
  readonly text: string;
}

function read(message: Uint8Array): Question {
  const question = { host: "", field: 0, text: "" };
  const reader = new ProtoReader(message);
  const { end } = reader;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) question.host = reader.text(end);
    else if (field === ASK.fileOfExtension) {
      question.field = field;
      reader.skip(field, end);
    } else if (Object.values<number>(ASK).includes(field)) {
      question.field = field;
      question.text = reader.text(end);
    } else reader.skip(field, end);
  }
  return question;
}

function answer(message: Uint8Array, names: readonly string[], known: Descriptors): Uint8Array {
  const { host, field, text } = read(message);
  const writer = new ProtoWriter();
  writer.textField(tagged(ANSWER.host), host);
  writer.bytesField(tagged(ANSWER.request), message);
  switch (field) {
    case ASK.services:
      writeNames(writer, names);
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
  return writer.view();
}

function writeNames(writer: ProtoWriter, names: readonly string[]): void {
  const list = writer.open(tagged(ANSWER.services));
  for (const name of names) {
    const service = writer.open(tagged(1));
    writer.text(tagged(1), name);
    writer.close(service);
  }
  writer.close(list);
}

function writeFiles(writer: ProtoWriter, files: readonly Uint8Array[] | undefined): void {
  if (files === undefined) {
    writeError(writer, "NOT_FOUND", "no such file or symbol");
    return;
  }
  const answered = writer.open(tagged(ANSWER.files));
  for (const file of files) writer.bytesField(tagged(1), file);
  writer.close(answered);
}

function writeError(
  writer: ProtoWriter,
  code: "NOT_FOUND" | "INVALID_ARGUMENT",
  message: string,
): void {
  const error = writer.open(tagged(ANSWER.error));
  writer.uint32Field(1 << 3, CODES[code].number);
  writer.text(tagged(2), message);
  writer.close(error);
}
