import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { describe, type TestContext } from "node:test";
import type { GrpcService, Method } from "#base/handler.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { memoryMeter, type Overrides, type TestPort, testPort } from "../../kit/sluice/port.ts";

export const message = Buffer.from("a message");
export const HOUR_MS = 3_600_000;
export const MIB = 1024 * 1024;

export function service(methods: Record<string, Method>): GrpcService {
  return { name: "test.Service", methods };
}

export const unary = (handle: Extract<Method, { kind: "unary" }>["handle"]): Method => ({
  kind: "unary",
  handle,
});

export type Transport = "own" | "grpc-js";

/** Opens ports and clients for the transport under test. */
export function portsOver(transport: Transport) {
  const open = (
    t: TestContext,
    methods: Record<string, Method>,
    { grpc, ...settings }: Overrides = {},
    options: Partial<Parameters<typeof testPort>[1]> = {},
  ): Promise<TestPort> =>
    testPort(t, {
      ...options,
      services: [service(methods)],
      settings: { ...settings, grpc: { ...grpc, transport } },
    });
  return {
    open,
    async serving(t: TestContext, methods: Record<string, Method>, settings: Overrides = {}) {
      const { meter, ...counted } = memoryMeter();
      const port = await open(t, methods, settings, { meter });
      return { port, client: grpcClient(t, port.address), counted };
    },
  };
}

/** Makes a call with exactly these body bytes and returns its status. */
export async function raw(
  t: TestContext,
  address: string,
  body: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  const session = connectHttp2(`http://${address}`);
  t.after(() => session.destroy());
  return call(session, body, headers);
}

export async function call(
  session: ClientHttp2Session,
  body: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  const stream = session.request({
    ":method": "POST",
    ":path": "/test.Service/Size",
    "content-type": "application/grpc+proto",
    te: "trailers",
    ...headers,
  });
  stream.end(body);
  let status: unknown;
  stream.on("response", (head) => {
    status = head["grpc-status"];
  });
  stream.on("trailers", (head) => {
    status = head["grpc-status"];
  });
  stream.resume();
  await new Promise((resolve) => stream.on("close", resolve));
  return status;
}

export function framed(compressed: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head[0] = 1;
  head.writeUInt32BE(compressed.length, 1);
  return Buffer.concat([head, compressed]);
}

/** Declares the same tests for both transports. */
export function overBoth(declare: (over: ReturnType<typeof portsOver>) => void): void {
  for (const transport of ["own", "grpc-js"] as const) {
    describe(`over ${transport}`, () => declare(portsOver(transport)));
  }
}
