// An application as tests put it behind an Envoy: long answers, events, a raw upgrade, uploads, and connections that end
// without a word; and one that speaks gRPC only.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import type { Ending } from "../kit/ending.ts";

/** Longer than Envoy's default limit for a request, 15 s. */
export const LONG_MS = 17_000;

export interface Application {
  readonly port: number;
  /** Paths of the requests that have arrived, as the application sees them. */
  readonly paths: readonly string[];
  /** Connections that are open. The application itself ends none. */
  readonly connections: number;
  /** Resolves when the first bytes of an upload have arrived. */
  readonly uploading: Promise<void>;
  /** Ends the connections of all requests to `/hang` that it holds. */
  crash(): void;
}

/**
 * `/slow`, `/events`, `/upload` and `/count` (answer with the number of bytes), `/open` (never ends), `/hang` (never answers), `/talk` (answers each part of a body at once), an
 * upgrade anywhere and a tunnel to anywhere (echoed); any other path is echoed. `/leave` ends a connection that was used before, as an application does
 * whose time to keep it ends while a request is on its way.
 */
export async function startApplication(test: Ending): Promise<Application> {
  const paths: string[] = [];
  const upload = Promise.withResolvers<void>();
  /** Connections on which a request was answered. */
  const used = new WeakSet<Socket>();
  const sockets = new Set<{ destroy(): void }>();
  const hanging = new Set<Socket>();
  let open = 0;
  const timers = new Set<NodeJS.Timeout>();
  const later = (work: () => void) => timers.add(setTimeout(work, LONG_MS));
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const { url = "", httpVersion } = request;
    paths.push(url);
    response.once("finish", () => used.add(request.socket));
    if (url === "/open") response.write("and no end");
    else if (url === "/hang") hanging.add(request.socket);
    else if (url === "/talk") request.pipe(response);
    else if (url === "/slow") later(() => response.end("at last"));
    else if (url === "/events") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: first\n\n");
      later(() => response.end("data: last\n\n"));
    } else if (url === "/upload" || url === "/count") {
      let bytes = 0;
      request.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (url === "/upload") upload.resolve();
      });
      request.on("end", () => response.end(String(bytes)));
    } else if (url === "/leave" && used.has(request.socket)) request.socket.destroy();
    else response.end(JSON.stringify({ url, httpVersion }));
  };
  const server = createServer(answer);
  server.keepAliveTimeout = 0;
  server.on("connection", (socket) => {
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
  });
  const echo = (path: string, socket: Duplex, head: Buffer, answer: string) => {
    paths.push(path);
    socket.write(`HTTP/1.1 ${answer}\r\n\r\n`);
    socket.on("error", () => undefined);
    socket.write(head);
    socket.pipe(socket);
    sockets.add(socket);
  };
  server.on("upgrade", ({ url = "", headers }, socket, head) => {
    const fields = `connection: upgrade\r\nupgrade: ${headers.upgrade}`;
    echo(url, socket, head, `101 Switching Protocols\r\n${fields}`);
  });
  server.on("connect", ({ url = "" }, socket, head) => echo(url, socket, head, "200 Connected"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    for (const timer of timers) clearTimeout(timer);
    for (const socket of sockets) socket.destroy();
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  return {
    port,
    paths,
    uploading: upload.promise,
    crash() {
      for (const socket of hanging) socket.destroy();
      hanging.clear();
    },
    get connections() {
      return open;
    },
  };
}

type Bytes = Uint8Array;
const bytes = (message: Uint8Array): Buffer => Buffer.from(message);
const method = (path: string, requestStream: boolean, responseStream: boolean) => ({
  path,
  requestStream,
  responseStream,
  requestSerialize: bytes,
  requestDeserialize: (buffer: Buffer) => buffer,
  responseSerialize: bytes,
  responseDeserialize: (buffer: Buffer) => buffer,
});

/** The methods `/echo.Echo/…`: `Unary`, `Slow`, `Fail`, `Up` (answers with the number of messages), `Down` and `Both`, all with trailers. */
export async function startGrpcApplication(test: Ending): Promise<number> {
  const server = new Server();
  const trailers = () => {
    const metadata = new Metadata();
    metadata.set("x-trailer", "kept");
    return metadata;
  };
  server.addService(
    {
      unary: method("/echo.Echo/Unary", false, false),
      slow: method("/echo.Echo/Slow", false, false),
      fail: method("/echo.Echo/Fail", false, false),
      up: method("/echo.Echo/Up", true, false),
      down: method("/echo.Echo/Down", false, true),
      both: method("/echo.Echo/Both", true, true),
    },
    {
      unary: (call: ServerUnaryCall<Bytes, Bytes>, done: sendUnaryData<Bytes>) =>
        done(null, call.request, trailers()),
      slow(call: ServerUnaryCall<Bytes, Bytes>, done: sendUnaryData<Bytes>) {
        const timer = setTimeout(() => done(null, call.request), LONG_MS);
        call.once("cancelled", () => clearTimeout(timer));
      },
      fail: (_: ServerUnaryCall<Bytes, Bytes>, done: sendUnaryData<Bytes>) =>
        done({ code: status.FAILED_PRECONDITION, details: "not now", metadata: trailers() }),
      up(call: ServerReadableStream<Bytes, Bytes>, done: sendUnaryData<Bytes>) {
        let count = 0;
        call.on("data", () => count++);
        call.on("end", () => done(null, Buffer.from(String(count)), trailers()));
      },
      down(call: ServerWritableStream<Bytes, Bytes>) {
        for (const each of ["one", "two", "three"]) call.write(Buffer.from(each));
        call.end(trailers());
      },
      both(call: ServerDuplexStream<Bytes, Bytes>) {
        call.on("data", (message: Buffer) => call.write(message));
        call.on("end", () => call.end(trailers()));
      },
    },
  );
  test.after(() => server.forceShutdown());
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });
}
