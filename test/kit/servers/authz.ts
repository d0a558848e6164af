// An ext_authz server with a fixed reply, for replies that Sluice itself never gives: tests use it to see how Envoy
// treats them.

import type { TestContext } from "node:test";
import {
  type MethodDefinition,
  Server,
  ServerCredentials,
  type sendUnaryData,
} from "@grpc/grpc-js";

/** The bytes of a reply, or the gRPC status with which the call fails. */
export type AuthzReply = Uint8Array | { readonly code: number; readonly details: string };

const raw = (bytes: Uint8Array): Buffer => Buffer.from(bytes);
const SERVING = Uint8Array.of(8, 1);

function unary(path: string): MethodDefinition<Uint8Array, Uint8Array> {
  return {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: raw,
    requestDeserialize: raw,
    responseSerialize: raw,
    responseDeserialize: raw,
  };
}

/** Starts the server and returns its address. Its health is always SERVING. */
export async function authzServer(test: TestContext, reply: AuthzReply): Promise<string> {
  const server = new Server();
  const answer = (given: AuthzReply) => (_call: unknown, done: sendUnaryData<Uint8Array>) =>
    given instanceof Uint8Array ? done(null, given) : done(given);
  server.addService(
    { Check: unary("/envoy.service.auth.v3.Authorization/Check") },
    { Check: answer(reply) },
  );
  server.addService({ Check: unary("/grpc.health.v1.Health/Check") }, { Check: answer(SERVING) });
  const port = await new Promise<number>((resolve, reject) => {
    const credentials = ServerCredentials.createInsecure();
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  test.after(() => server.forceShutdown());
  return `127.0.0.1:${port}`;
}
