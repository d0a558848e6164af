// gRPC server reflection in v1 and the older v1alpha (same messages): lists the services and returns the files that
// describe them. Descriptors are loaded at the first question.

import { CODES } from "#base/fault.ts";
import type { GrpcService, StreamHandler } from "#base/handler.ts";
import type { Descriptors } from "#wire/protobuf/descriptors.ts";
import { BYTES, ProtoReader } from "#wire/protobuf/reader.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";

/** Fields of ServerReflectionRequest; `host` is 1. */
const REQUEST_FIELD = {
  fileByName: 3,
  fileOfSymbol: 4,
  fileOfExtension: 5,
  extensionNumbers: 6,
  services: 7,
} as const;
/** Fields of ServerReflectionResponse. */
const RESPONSE_FIELD = { host: 1, request: 2, files: 4, services: 6, error: 7 } as const;

const tagged = (field: number) => (field << 3) | BYTES;

const VERSIONS: readonly string[] = [
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
];

/** Both versions of the service; they also describe themselves. `load` is called once. */
export function reflectionOf(
  served: readonly GrpcService[],
  load: (services: readonly GrpcService[]) => Promise<Descriptors>,
): readonly GrpcService[] {
  let loading: Promise<Descriptors> | undefined;
  const handle: StreamHandler = async ({ messages, send }) => {
    loading ??= load([...served, ...own]);
    const known = await loading;
    for await (const message of messages) await send(respond(message, names, known));
  };
  const methods = {
    ServerReflectionInfo: { kind: "stream", client: true, server: true, handle },
  } as const;
  const own = VERSIONS.map((name): GrpcService => ({ name, access: "administration", methods }));
  const names = [...served, ...own].map(({ name }) => name);
  return own;
}

interface ReflectionQuery {
  readonly host: string;
  readonly field: number;
  readonly text: string;
}

function read(message: Uint8Array): ReflectionQuery {
  const question = { host: "", field: 0, text: "" };
  const reader = new ProtoReader(message);
  const { end } = reader;
  while (reader.at < end) {
    const field = reader.tag(end);
    if (reader.wire !== BYTES) reader.skip(field, end);
    else if (field === 1) question.host = reader.text(end);
    else if (field === REQUEST_FIELD.fileOfExtension) {
      question.field = field;
      reader.skip(field, end);
    } else if (Object.values<number>(REQUEST_FIELD).includes(field)) {
      question.field = field;
      question.text = reader.text(end);
    } else reader.skip(field, end);
  }
  return question;
}

function respond(message: Uint8Array, names: readonly string[], known: Descriptors): Uint8Array {
  const { host, field, text } = read(message);
  const writer = new ProtoWriter();
  writer.textField(tagged(RESPONSE_FIELD.host), host);
  writer.bytesField(tagged(RESPONSE_FIELD.request), message);
  switch (field) {
    case REQUEST_FIELD.services:
      writeNames(writer, names);
      break;
    case REQUEST_FIELD.fileByName:
      writeFiles(writer, known.fileByName(text));
      break;
    case REQUEST_FIELD.fileOfSymbol:
      writeFiles(writer, known.fileContainingSymbol(text));
      break;
    case REQUEST_FIELD.fileOfExtension:
    case REQUEST_FIELD.extensionNumbers:
      // No served message uses extensions.
      writeError(writer, "NOT_FOUND", "no extensions are served");
      break;
    default:
      writeError(writer, "INVALID_ARGUMENT", "unknown kind of reflection request");
  }
  return writer.view();
}

function writeNames(writer: ProtoWriter, names: readonly string[]): void {
  const list = writer.open(tagged(RESPONSE_FIELD.services));
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
  const answered = writer.open(tagged(RESPONSE_FIELD.files));
  for (const file of files) writer.bytesField(tagged(1), file);
  writer.close(answered);
}

function writeError(
  writer: ProtoWriter,
  code: "NOT_FOUND" | "INVALID_ARGUMENT",
  message: string,
): void {
  const error = writer.open(tagged(RESPONSE_FIELD.error));
  writer.uint32Field(1 << 3, CODES[code].number);
  writer.text(tagged(2), message);
  writer.close(error);
}
