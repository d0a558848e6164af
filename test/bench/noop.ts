// The servers that Sluice is measured against: they take and give back bytes of the same sizes and do nothing
// between. `noop.ts grpc|http ADDRESS REPLY_BYTES`; 0 bytes makes the gRPC server an empty one.

import { createServer } from "node:http";
import { type Server as GrpcServer, Server, ServerCredentials } from "@grpc/grpc-js";
import { CHECK_PATH } from "./paths.ts";

const [kind, address = "", size = "0"] = process.argv.slice(2);
if (kind === "grpc") await serveGrpc(address, Number(size));
else serveHttp(address, Number(size));

async function serveGrpc(target: string, bytes: number): Promise<void> {
  const server = new Server();
  if (bytes > 0) addCheck(server, Buffer.alloc(bytes, 1));
  const bind = Promise.withResolvers<number>();
  server.bindAsync(target, ServerCredentials.createInsecure(), (fault, port) =>
    fault === null ? bind.resolve(port) : bind.reject(fault),
  );
  await bind.promise;
}

function addCheck(server: GrpcServer, reply: Buffer): void {
  const same = (buffer: Buffer) => buffer;
  server.addService(
    {
      check: {
        path: CHECK_PATH,
        requestStream: false,
        responseStream: false,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      },
    },
    {
      check: (_call: unknown, done: (fault: null, reply: Buffer) => void) => done(null, reply),
    },
  );
}

function serveHttp(target: string, bytes: number): void {
  const reply = Buffer.alloc(bytes, 0x20);
  const head = { "content-type": "application/json", "content-length": bytes };
  createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      Buffer.concat(parts);
      response.writeHead(200, head).end(reply);
    });
  }).listen(Number(target.slice(target.lastIndexOf(":") + 1)), "127.0.0.1");
}
