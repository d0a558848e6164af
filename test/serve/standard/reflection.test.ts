import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import protobuf from "protobufjs";
import type { GrpcService } from "#base/handler.ts";
import { type Descriptors, descriptorsOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { testPort } from "../../kit/sluice/port.ts";

const echo: GrpcService = {
  name: "test.Echo",
  methods: { Say: { kind: "unary", handle: (bytes) => bytes } },
};
const file = Buffer.from("an encoded file");
const imported = Buffer.from("a file that it imports");
const known: Descriptors = {
  services: () => ["test.Echo"],
  fileContainingSymbol: (name) => (name === "test.Echo" ? [file, imported] : undefined),
  fileByName: (name) => (name === "test/echo.proto" ? [file] : undefined),
};

// The message types of the public definition, to decode what the service encoded by hand.
const { root } = protobuf.parse(`
syntax = "proto3";
message Extension { string containing_type = 1; int32 extension_number = 2; }
message Request {
  string host = 1;
  oneof ask {
    string file_by_filename = 3;
    string file_containing_symbol = 4;
    Extension file_containing_extension = 5;
    string all_extension_numbers_of_type = 6;
    string list_services = 7;
  }
}
message Files { repeated bytes file_descriptor_proto = 1; }
message ServiceName { string name = 1; }
message Services { repeated ServiceName service = 1; }
message Failure { int32 error_code = 1; string error_message = 2; }
message Response {
  string valid_host = 1;
  Request original_request = 2;
  oneof answer {
    Files file_descriptor_response = 4;
    Services list_services_response = 6;
    Failure error_response = 7;
  }
}`);
const Request = root.lookupType("Request");
const Response = root.lookupType("Response");

interface Answered {
  readonly validHost: string;
  readonly originalRequest: unknown;
  readonly fileDescriptorResponse?: { readonly fileDescriptorProto: readonly Uint8Array[] };
  readonly listServicesResponse?: { readonly service: readonly { readonly name: string }[] };
  readonly errorResponse?: { readonly errorCode: number };
}

async function openTestPort(t: TestContext) {
  let loads = 0;
  const descriptors = async () => {
    loads++;
    return known;
  };
  const settings = { grpc: { enable_reflection: true } };
  const port = await testPort(t, { services: [echo], descriptors, settings });
  return { client: grpcClient(t, port.address), loads: () => loads };
}

for (const version of ["v1", "v1alpha"]) {
  test(`reflection ${version} lists services and returns their files`, async (t) => {
    const { client, loads } = await openTestPort(t);
    assert.equal(loads(), 0, "descriptors were loaded before the first request");
    const call = client.bidirectional(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    );
    const replies = call[Symbol.asyncIterator]();
    const ask = async (question: Record<string, unknown>): Promise<Answered> => {
      const request = { host: "h", ...question };
      call.write(Request.encode(Request.create(request)).finish());
      const reply = Response.decode((await replies.next()).value as Uint8Array);
      const answered = Response.toObject(reply) as unknown as Answered;
      assert.equal(answered.validHost, "h");
      assert.deepEqual(answered.originalRequest, request);
      return answered;
    };
    assert.deepEqual(
      (await ask({ listServices: "" })).listServicesResponse?.service.map(({ name }) => name),
      [
        "test.Echo",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
      ],
    );
    const bySymbol = await ask({ fileContainingSymbol: "test.Echo" });
    assert.deepEqual(bySymbol.fileDescriptorResponse?.fileDescriptorProto, [file, imported]);
    const byName = await ask({ fileByFilename: "test/echo.proto" });
    assert.deepEqual(byName.fileDescriptorResponse?.fileDescriptorProto, [file]);
    assert.equal((await ask({ fileByFilename: "no.proto" })).errorResponse?.errorCode, 5);
    const extension = { fileContainingExtension: { containingType: "a.B", extensionNumber: 7 } };
    assert.equal((await ask(extension)).errorResponse?.errorCode, 5);
    assert.equal((await ask({ allExtensionNumbersOfType: "a.B" })).errorResponse?.errorCode, 5);
    assert.equal((await ask({})).errorResponse?.errorCode, 3);
    call.end();
    assert.equal((await replies.next()).done, true);
    assert.equal(loads(), 1);
  });
}

test("returns valid files for the services that every port has", async (t) => {
  const settings = { grpc: { enable_reflection: true } };
  const port = await testPort(t, {
    descriptors: async (served) => descriptorsOf(served),
    settings,
  });
  const call = grpcClient(t, port.address).bidirectional(
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  );
  const replies = call[Symbol.asyncIterator]();
  for (const fileContainingSymbol of [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
  ]) {
    call.write(Request.encode(Request.create({ fileContainingSymbol })).finish());
    const reply = Response.decode((await replies.next()).value as Uint8Array);
    const { fileDescriptorResponse } = Response.toObject(reply) as unknown as Answered;
    const [encoded] = fileDescriptorResponse?.fileDescriptorProto ?? [];
    assert.ok(
      String(Buffer.from(encoded ?? [])).includes(fileContainingSymbol.replace(/.*\./, "")),
    );
  }
  call.end();
});

test("serves no reflection unless it is enabled, and then requires descriptors", async (t) => {
  const port = await testPort(t, { services: [echo] });
  const client = grpcClient(t, port.address);
  const call = client.bidirectional("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
  const code = await new Promise((resolve) =>
    call.on("error", (error: { readonly code?: number }) => resolve(error.code)),
  );
  assert.equal(code, 12);
  const settings = { grpc: { enable_reflection: true } };
  await assert.rejects(testPort(t, { services: [echo], settings }), /descriptors/);
});
