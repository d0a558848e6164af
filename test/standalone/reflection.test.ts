// Reflection lists what a client may call: each listed method of a running standalone is called and answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { call, HEADERS, rawPeer, reset } from "../kit/clients/h2.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const ServerReflectionRequestSchema = schemaOf("grpc.reflection.v1.ServerReflectionRequest");
const ServerReflectionResponseSchema = schemaOf("grpc.reflection.v1.ServerReflectionResponse");

const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const UNIMPLEMENTED = "12";

for (const transport of ["own", "grpc-js"]) {
  test(`every method that reflection lists answers, on the transport ${transport}`, async (t) => {
    const { address } = await standalone(t, {
      policies: {},
      env: {
        SVC_AGENT_SERVER_GRPC_TRANSPORT: transport,
        SVC_AGENT_SERVER_GRPC_ENABLE_REFLECTION: "true",
      },
    });
    const stream = grpcClient(t, address).bidirectional(REFLECTION);
    const replies = stream[Symbol.asyncIterator]();
    const ask = async (messageRequest: Question) => {
      const request = create(ServerReflectionRequestSchema, { messageRequest });
      stream.write(toBinary(ServerReflectionRequestSchema, request));
      const { value } = await replies.next();
      assert.ok(value instanceof Uint8Array);
      return fromBinary(ServerReflectionResponseSchema, value).messageResponse;
    };

    const services = await ask({ case: "listServices", value: "" });
    assert.ok(services.case === "listServicesResponse");
    const listed: string[] = [];
    for (const { name } of services.value.service) {
      const files = await ask({ case: "fileContainingSymbol", value: name });
      assert.ok(files.case === "fileDescriptorResponse", `${name} is described`);
      const [own = new Uint8Array()] = files.value.fileDescriptorProto;
      const file = fromBinary(FileDescriptorProtoSchema, own);
      const service = file.service.find((each) => `${file.package}.${each.name}` === name);
      assert.ok(service !== undefined && service.method.length > 0, `${name} has methods`);
      listed.push(...service.method.map((method) => `/${name}/${method.name}`));
    }
    stream.end();
    for (const path of [
      REFLECTION,
      "/envoy.service.auth.v3.Authorization/Check",
      "/aperture.flowcontrol.check.v1.FlowControlService/Check",
      "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    ])
      assert.ok(listed.includes(path), `${path} is listed`);

    const peer = await rawPeer(t, address);
    const statusOf = async (path: string) => {
      const id = peer.nextStream();
      await peer.send(call(id, path));
      // A method that does not exist ends with its first header section. Others may go on, as a watch does.
      const { fields = [] } = await peer.frame(
        `a reply of ${path}`,
        (frame) => frame.type === HEADERS && frame.stream === id,
      );
      await peer.send(reset(id));
      return new Map(fields).get("grpc-status");
    };
    assert.equal(await statusOf("/aperture.none.v1.None/Call"), UNIMPLEMENTED);
    for (const path of listed) assert.notEqual(await statusOf(path), UNIMPLEMENTED, path);
  });
}

type Question =
  | { readonly case: "listServices"; readonly value: string }
  | { readonly case: "fileContainingSymbol"; readonly value: string };
