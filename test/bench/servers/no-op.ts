// The servers that Sluice is measured against: they read and write as many bytes as Sluice and decide nothing.
// `no-op.ts own|grpc-js|http2|http ADDRESS REPLY_BYTES`; with 0 bytes the grpc-js server has no services. Each kind
// loads only the modules that it needs.

import type { ServerHttp2Stream } from "node:http2";
import type { Server as NetServer } from "node:net";
import { silentLog } from "../../kit/sluice/log.ts";
import { CHECK_PATH, SERVICE } from "../load/paths.ts";

const GRPC_PREFIX = 5;
const SERVERS = { own: serveOwn, "grpc-js": serveGrpcJs, http2: serveHttp2, http: serveHttp };

const [kind, address = "", size = "0"] = process.argv.slice(2);
const serve = Object.entries(SERVERS).find(([name]) => name === kind)?.[1];
if (serve === undefined) throw new Error(`no such server: ${kind}`);
await serve(address, Number(size));

/** Sluice's port with its own transport, and a handler that returns constant bytes. */
async function serveOwn(target: string, bytes: number): Promise<void> {
  const [{ openPort }, { ReadScheduler }, { NO_ACCESS_CONTROL }, { realClock }] = await Promise.all(
    [
      import("#serve/port.ts"),
      import("#h2/read-scheduler.ts"),
      import("#serve/administration.ts"),
      import("#runtime/life/clock.ts"),
    ],
  );
  const reply = Buffer.alloc(bytes, 1);
  const clock = realClock();
  await openPort({
    services: [
      {
        name: SERVICE,
        methods: { Check: { kind: "unary", handle: () => reply } },
      },
    ],
    routes: [],
    accessControl: NO_ACCESS_CONTROL,
    readScheduler: new ReadScheduler(clock),
    clock,
    log: silentLog(),
    settings: {
      listener: { addr: target, network: "tcp", keep_alive: 180_000 },
      grpc: {
        transport: "own",
        connection_timeout: 120_000,
        enable_reflection: false,
        latency_buckets_ms: [],
        max_message_bytes: 4_194_304,
        max_connection_age: 0,
        max_connection_age_grace: 0,
      },
      http: {
        disable_http_keep_alives: false,
        idle_timeout: 30_000,
        latency_buckets_ms: [],
        max_body_bytes: 1_048_576,
        max_headers: 1_000,
        max_header_bytes: 1_048_576,
        read_header_timeout: 10_000,
        read_timeout: 10_000,
        write_timeout: 45_000,
      },
      tls: { enabled: false, cert_file: "", key_file: "", client_ca_file: "", allowed_cn: "" },
      drain: { accept_for: 0, grace: 0 },
    },
  });
}

async function serveGrpcJs(target: string, bytes: number): Promise<void> {
  const { Server, ServerCredentials } = await import("@grpc/grpc-js");
  const server = new Server();
  const same = (buffer: Buffer) => buffer;
  const reply = Buffer.alloc(bytes, 1);
  const check = {
    path: CHECK_PATH,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const answer = (_call: unknown, done: (fault: null, reply: Buffer) => void) => done(null, reply);
  if (bytes > 0) server.addService({ check }, { check: answer });
  const bind = Promise.withResolvers<number>();
  server.bindAsync(target, ServerCredentials.createInsecure(), (fault, port) =>
    fault === null ? bind.resolve(port) : bind.reject(fault),
  );
  await bind.promise;
}

async function serveHttp2(target: string, bytes: number): Promise<void> {
  const { createServer } = await import("node:http2");
  const reply = Buffer.alloc(GRPC_PREFIX + bytes, 1);
  reply.writeUIntBE(bytes, 0, GRPC_PREFIX);
  const head = { ":status": 200, "content-type": "application/grpc" };
  const trailers = { "grpc-status": "0" };
  const server = createServer({ settings: { maxConcurrentStreams: 1_000 } });
  server.on("stream", (stream: ServerHttp2Stream) => {
    const parts: Buffer[] = [];
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("end", () => {
      Buffer.concat(parts);
      stream.respond(head, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers(trailers));
      stream.end(reply);
    });
  });
  listen(server, target);
}

async function serveHttp(target: string, bytes: number): Promise<void> {
  const { createServer } = await import("node:http");
  const reply = Buffer.alloc(bytes, 0x20);
  const head = { "content-type": "application/json", "content-length": bytes };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      Buffer.concat(parts);
      response.writeHead(200, head).end(reply);
    });
  });
  listen(server, target);
}

function listen(server: NetServer, target: string): void {
  if (target.startsWith("unix:")) server.listen(target.slice("unix:".length));
  else server.listen(Number(target.slice(target.lastIndexOf(":") + 1)), "127.0.0.1");
}
