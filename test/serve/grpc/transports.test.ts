import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { describe, type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { ChannelCredentials, type Metadata, type ServiceError } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import type { Call, GrpcService, Method } from "#base/handler.ts";
import { connectionsTo } from "../../kit/attack/server-end.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import {
  dial,
  memoryMeter,
  type Overrides,
  readAll,
  type TestPort,
  testPort,
} from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const message = Buffer.from("a message");
const MIB = 1024 * 1024;

function service(methods: Record<string, Method>): GrpcService {
  return { name: "test.Service", methods };
}

const unary = (handle: Extract<Method, { kind: "unary" }>["handle"]): Method => ({
  kind: "unary",
  handle,
});

type Transport = "own" | "grpc-js";

/** Opens ports and clients for the transport under test. */
function portsOver(transport: Transport) {
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
async function raw(
  t: TestContext,
  address: string,
  body: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  const session = connectHttp2(`http://${address}`);
  t.after(() => session.destroy());
  return call(session, body, headers);
}

async function call(
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

function framed(compressed: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head[0] = 1;
  head.writeUInt32BE(compressed.length, 1);
  return Buffer.concat([head, compressed]);
}

const streams: Record<string, Method> = {
  Count: {
    kind: "stream",
    client: false,
    server: true,
    async handle({ messages, send }, call) {
      call.reply("x-stream", "counting");
      for await (const first of messages) {
        for (let at = 0; at < Number(String(first)); at++) await send(Buffer.alloc(10_000, at));
      }
    },
  },
  Sum: {
    kind: "stream",
    client: true,
    server: false,
    async handle({ messages, send }) {
      let sum = 0;
      for await (const each of messages) sum += Number(String(each));
      if (sum < 0) throw new Fault("OUT_OF_RANGE", "below zero");
      if (sum > 0) await send(Buffer.from(String(sum)));
    },
  },
  Echo: {
    kind: "stream",
    client: true,
    server: true,
    async handle({ messages, send }) {
      for await (const each of messages) {
        if (String(each) === "stop") throw new Fault("ABORTED", "stopped");
        await send(each);
      }
    },
  },
};

const HOUR_MS = 3_600_000;

/** Time from before connecting until GOAWAY, ms. */
async function ageOf(t: TestContext, address: string): Promise<number> {
  const started = performance.now();
  const session = connectHttp2(`http://${address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  await new Promise((resolve) => session.once("goaway", resolve));
  return performance.now() - started;
}

for (const transport of ["own", "grpc-js"] as const) {
  describe(`over ${transport}`, () => gRPC(portsOver(transport)));
}

function gRPC({ open, serving }: ReturnType<typeof portsOver>): void {
  test("passes messages unchanged to synchronous and asynchronous handlers, and counts them", async (t) => {
    const { client, counted } = await serving(t, {
      Now: unary((bytes) => bytes),
      Later: unary(async (bytes) => Uint8Array.from(bytes).reverse()),
    });
    assert.deepEqual((await client.unary("/test.Service/Now", message)).message, message);
    const later = await client.unary("/test.Service/Later", message);
    assert.deepEqual(later.message, Buffer.from(message).reverse());
    assert.deepEqual(counted.grpc.slice(0, 3), [
      "started /test.Service/Now unary",
      "received /test.Service/Now",
      "sent /test.Service/Now",
    ]);
    assert.deepEqual(
      counted.handled.map(({ path, code }) => [path, code]),
      [
        ["/test.Service/Now", "OK"],
        ["/test.Service/Later", "OK"],
      ],
    );
  });

  test("accepts an empty message and an empty reply", async (t) => {
    const { client } = await serving(t, { Say: unary((bytes) => bytes) });
    const reply = await client.unary("/test.Service/Say", new Uint8Array(0));
    assert.equal(reply.code, 0);
    assert.equal(reply.message?.length, 0);
  });

  test("passes request metadata to the handler and reply metadata to the caller", async (t) => {
    const { client } = await serving(t, {
      Say: unary((_, call) => {
        call.reply("x-said", `${call.header("x-ask")} ${call.header("x-none")} ${call.method}`);
        return message;
      }),
      Refuse: unary((_, call) => {
        call.reply("x-said", "no");
        throw new Fault("PERMISSION_DENIED", "no entry \ud800 %");
      }),
    });
    const reply = await client.unary("/test.Service/Say", message, {
      metadata: { "x-ask": "who" },
    });
    assert.equal(reply.metadata["x-said"], "who undefined /test.Service/Say");
    const refused = await client.unary("/test.Service/Refuse", message);
    assert.equal(refused.code, 7);
    assert.equal(refused.details, "no entry \ufffd %");
    assert.equal(refused.metadata["x-said"], "no");
  });

  test("turns an error that is not a Fault into INTERNAL and logs it without telling the caller", async (t) => {
    const { port, client, counted } = await serving(t, {
      Now: unary(() => {
        throw new Error("the secret");
      }),
      Later: unary(async () => {
        throw new Fault("INTERNAL", "internal error", { cause: new Error("the secret") });
      }),
    });
    for (const name of ["Now", "Later"]) {
      const reply = await client.unary(`/test.Service/${name}`, message);
      assert.deepEqual([reply.code, reply.details], [13, "internal error"]);
    }
    assert.deepEqual(
      port.log.lines.map(({ level, fields }) => [level, String(fields?.["error"])]),
      [
        ["error", "Error: the secret"],
        ["error", "Error: the secret"],
      ],
    );
    assert.deepEqual(
      counted.handled.map(({ code }) => code),
      ["INTERNAL", "INTERNAL"],
    );
  });

  test("answers unknown services and methods with UNIMPLEMENTED", async (t) => {
    const { client } = await serving(t, { Say: unary((bytes) => bytes) });
    for (const path of [
      "/test.Service/Shout",
      "/other.Service/Say",
      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ]) {
      assert.equal((await client.unary(path, message)).code, 12, path);
    }
  });

  test("passes the deadline to the handler and ends the call at it", async (t) => {
    const left: number[] = [];
    let aborted: AbortSignal | undefined;
    const { port, client, counted } = await serving(t, {
      Ask: unary((bytes, call) => {
        left.push(call.deadline - performance.now());
        return bytes;
      }),
      Wait: unary((_, call) => {
        aborted = call.signal();
        return new Promise((resolve) =>
          call.signal().addEventListener("abort", () => resolve(message)),
        );
      }),
    });
    await client.unary("/test.Service/Ask", message);
    await client.unary("/test.Service/Ask", message, { timeout: HOUR_MS });
    assert.equal(left[0], Number.POSITIVE_INFINITY);
    const [, seen = 0] = left;
    assert.ok(seen > HOUR_MS / 2 && seen <= HOUR_MS, `${seen} ms`);
    // A raw call: a client with a deadline of its own would cancel at the same moment.
    const late = { ":path": "/test.Service/Wait", "grpc-timeout": "100m" };
    assert.equal(await raw(t, port.address, Buffer.from([0, 0, 0, 0, 0]), late), "4");
    await until("signal", () => aborted?.aborted === true);
    await until("count", () => counted.handled.length === 3);
    assert.equal(counted.handled[2]?.code, "DEADLINE_EXCEEDED");
  });

  test("aborts the signal when the caller cancels, and not at a normal end", async (t) => {
    const calls: Call[] = [];
    const left: Call[] = [];
    const { client, counted } = await serving(t, {
      Wait: unary((_, call) => {
        calls.push(call);
        call.whenCallerLeaves(() => left.push(call));
        return new Promise((resolve) =>
          call.signal().addEventListener("abort", () => resolve(message)),
        );
      }),
      Say: unary((bytes, call) => {
        calls.push(call);
        call.whenCallerLeaves(() => left.push(call));
        call.signal();
        return bytes;
      }),
    });
    const controller = new AbortController();
    const cancelled = client.unary("/test.Service/Wait", message, { signal: controller.signal });
    await until("call", () => calls.length === 1);
    controller.abort();
    assert.equal((await cancelled).code, 1);
    await until("count", () => counted.handled.length === 1);
    assert.equal(counted.handled[0]?.code, "CANCELLED");
    await client.unary("/test.Service/Say", message);
    await client.unary("/test.Service/Say", message);
    assert.equal(calls[1]?.signal().aborted, false);
    assert.deepEqual(left, [calls[0]]);
    calls[0]?.whenCallerLeaves(() => left.pop());
    assert.deepEqual(left, [], "one that has left is reported immediately");
  });

  test("accepts messages up to 4 MiB and answers longer ones with RESOURCE_EXHAUSTED", async (t) => {
    const { client } = await serving(t, { Size: unary((bytes) => Buffer.from(`${bytes.length}`)) });
    const fits = await client.unary("/test.Service/Size", Buffer.alloc(4 * MIB));
    assert.equal(String(fits.message), String(4 * MIB));
    assert.equal((await client.unary("/test.Service/Size", Buffer.alloc(4 * MIB + 1))).code, 8);
  });

  test("sends a large reply", async (t) => {
    const { client } = await serving(t, { Much: unary(() => Buffer.alloc(3 * MIB, 7)) });
    const reply = await client.unary("/test.Service/Much", message);
    assert.equal(reply.message?.length, 3 * MIB);
  });

  test("accepts gzip", async (t) => {
    const port = await open(t, { Say: unary((bytes) => bytes) });
    const client = grpcClient(t, port.address, ChannelCredentials.createInsecure(), {
      "grpc.default_compression_algorithm": 2,
    });
    const reply = await client.unary("/test.Service/Say", Buffer.alloc(100_000, "x"));
    assert.equal(reply.message?.length, 100_000);
  });

  test("refuses a message that inflates beyond the limit before inflating all of it", async (t) => {
    const seen: number[] = [];
    const size = unary((bytes) => {
      seen.push(bytes.length);
      return bytes;
    });
    const port = await open(t, { Size: size });
    const gzip = { "grpc-encoding": "gzip" };
    const bomb = framed(gzipSync(Buffer.alloc(64 * MIB)));
    assert.ok(bomb.length < 100_000);
    assert.equal(await raw(t, port.address, bomb, gzip), "8");
    assert.equal(await raw(t, port.address, framed(Buffer.from("no gzip")), gzip), "13");
    const odd = { "grpc-encoding": "snappy" };
    assert.equal(await raw(t, port.address, framed(message), odd), "12");
    assert.deepEqual(seen, []);
    assert.equal(await raw(t, port.address, framed(gzipSync(message)), gzip), "0");
    assert.deepEqual(seen, [message.length]);
  });

  test("accepts application/grpc+proto and answers other content types with 415", async (t) => {
    const port = await open(t, { Size: unary((bytes) => bytes) });
    const session = connectHttp2(`http://${port.address}`);
    t.after(() => session.destroy());
    for (const [type, expected] of [
      ["application/grpc", 200],
      ["application/grpc+proto", 200],
      ["application/json", 415],
      ["text/plain", 415],
    ] as const) {
      const path = { ":method": "POST", ":path": "/test.Service/Size" };
      const stream = session.request({ ...path, "content-type": type });
      stream.end(Buffer.alloc(5));
      stream.resume();
      const status = await new Promise((resolve) =>
        stream.on("response", (head) => resolve(head[":status"])),
      );
      assert.equal(status, expected, type);
    }
  });

  test("passes binary metadata and trailers with a reply and with an error", async (t) => {
    const seen: unknown[] = [];
    const say = (call: Call) => {
      seen.push(call.header("x-ask-bin"), call.header("x-none-bin"));
      call.reply("x-said-bin", "AP8");
      call.trailer("x-end", "1");
      call.trailer("x-end", "2");
      call.trailer("grpc-status-details-bin", "3q2+7w==");
    };
    const { client } = await serving(t, {
      Say: unary((bytes, call) => {
        say(call);
        return bytes;
      }),
      Refuse: unary((_, call) => {
        say(call);
        throw new Fault("ABORTED", "refused");
      }),
      Bad: unary((bytes, call) => {
        call.reply("x-said", "line\r\nbreak");
        return bytes;
      }),
    });
    const metadata = { "x-ask-bin": Buffer.from([1, 0, 255, 254]) };
    for (const [name, code] of [
      ["Say", 0],
      ["Refuse", 10],
    ] as const) {
      const reply = await client.unary(`/test.Service/${name}`, message, { metadata });
      assert.equal(reply.code, code);
      assert.deepEqual(reply.metadata["x-said-bin"], Buffer.from([0, 255]));
      assert.equal(reply.trailers["x-end"], "2");
      assert.deepEqual(reply.trailers["grpc-status-details-bin"], Buffer.from("deadbeef", "hex"));
    }
    assert.deepEqual(seen, ["AQD//g==", undefined, "AQD//g==", undefined]);
    const bad = await client.unary("/test.Service/Bad", message);
    assert.deepEqual([bad.code, bad.details], [13, "internal error"]);
  });

  test("sends the trailers of streams", async (t) => {
    const { client } = await serving(t, {
      Sum: {
        kind: "stream",
        client: true,
        server: false,
        async handle({ messages, send }, call) {
          for await (const _ of messages);
          call.trailer("x-end", "sum");
          await send(message);
        },
      },
      Count: {
        kind: "stream",
        client: false,
        server: true,
        async handle({ messages, send }, call) {
          for await (const each of messages) await send(each);
          call.trailer("x-end", "count");
        },
      },
    });
    const sum = await client.clientStream("/test.Service/Sum", [message]);
    assert.equal(sum.trailers["x-end"], "sum");
    const call = client.serverStream("/test.Service/Count", message);
    const status = new Promise<{ metadata: Metadata }>((resolve) => call.once("status", resolve));
    call.resume();
    assert.deepEqual((await status).metadata.getMap()["x-end"], "count");
  });

  test("a server stream waits for a slow reader and then ends", async (t) => {
    const { client, counted } = await serving(t, streams);
    const call = client.serverStream("/test.Service/Count", Buffer.from("200"));
    let seen = 0;
    for await (const each of call) {
      assert.equal((each as Uint8Array)[0], seen % 256);
      seen++;
    }
    assert.equal(seen, 200);
    assert.deepEqual(
      counted.handled.map(({ code }) => code),
      ["OK"],
    );
  });

  test("a server stream ends when the caller cancels", async (t) => {
    const { client, counted } = await serving(t, streams);
    const call = client.serverStream("/test.Service/Count", Buffer.from("100000"));
    call.on("error", () => undefined);
    await new Promise((resolve) => call.once("data", resolve));
    call.cancel();
    await until("end", () => counted.handled.length === 1);
    assert.equal(counted.handled[0]?.code, "CANCELLED");
  });

  test("a client stream ends with one reply, with a fault, or with INTERNAL if there is no reply", async (t) => {
    const { client } = await serving(t, streams);
    const of = (...numbers: number[]) =>
      client.clientStream(
        "/test.Service/Sum",
        numbers.map((each) => Buffer.from(String(each))),
      );
    assert.equal(String((await of(1, 2, 3)).message), "6");
    const below = await of(-1);
    assert.deepEqual([below.code, below.details], [11, "below zero"]);
    assert.equal((await of()).code, 13);
  });

  test("a bidirectional stream echoes, and a fault ends it", async (t) => {
    const { client } = await serving(t, streams);
    const call = client.bidirectional("/test.Service/Echo");
    const seen: string[] = [];
    call.on("data", (each: Uint8Array) => seen.push(String(each)));
    const failed = new Promise<{ code?: number }>((resolve) => call.once("error", resolve));
    call.write(Buffer.from("a"));
    call.write(Buffer.from("b"));
    await until("echo", () => seen.length === 2);
    call.write(Buffer.from("stop"));
    assert.equal((await failed).code, 10);
    assert.deepEqual(seen, ["a", "b"]);
  });

  test("ends the connection when the client half-closes the socket", async (t) => {
    const { port } = await serving(t, { Say: unary((bytes) => bytes) });
    const socket = dial(t, port);
    const closed = readAll(socket);
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    await new Promise((resolve) => socket.once("data", resolve));
    socket.end();
    await closed;
    await port.drain();
    assert.deepEqual(port.log.lines, []);
  });

  test("announces at most 1 000 concurrent streams for each connection", async (t) => {
    const { port } = await serving(t, { Say: unary((bytes) => bytes) });
    const session = connectHttp2(`http://${port.address}`);
    t.after(() => session.destroy());
    const settings = await new Promise<{ maxConcurrentStreams?: number }>((resolve) =>
      session.once("remoteSettings", resolve),
    );
    assert.equal(settings.maxConcurrentStreams, 1_000);
  });

  // `test/serve/h2/lifecycle/goaway.test.ts` has the spread, in virtual time.
  test("sends GOAWAY at max_connection_age, less a tenth by which it is spread", async (t) => {
    const { port } = await serving(
      t,
      { Say: unary((bytes) => bytes) },
      { grpc: { max_connection_age: 500 } },
    );
    const ages = await Promise.all(Array.from({ length: 10 }, () => ageOf(t, port.address)));
    // Timers may fire a millisecond early, and late on a busy machine.
    for (const age of ages) assert.ok(age >= 448, `${age} ms`);
  });

  test("callers do not notice a GOAWAY at max_connection_age", async (t) => {
    const { client, port } = await serving(
      t,
      { Say: unary((bytes) => bytes) },
      { grpc: { max_connection_age: 100, max_connection_age_grace: HOUR_MS } },
    );
    while (connectionsTo(port.port) < 5) {
      const reply = await client.unary("/test.Service/Say", message);
      assert.equal(reply.code, 0, reply.details);
      await turn();
    }
  });

  test("a call in progress outlives max_connection_age by max_connection_age_grace, and no longer", async (t) => {
    const aborted: boolean[] = [];
    const methods = {
      Wait: unary((_, call) => {
        const { promise, resolve } = Promise.withResolvers<Uint8Array>();
        call.signal().addEventListener("abort", () => resolve(message));
        call.signal().addEventListener("abort", () => aborted.push(true));
        return promise;
      }),
    };
    const grpc = { max_connection_age: 200, max_connection_age_grace: 300 };
    const { client } = await serving(t, methods, { grpc });
    const started = performance.now();
    // If the grace were ignored, this deadline would end the call instead.
    const reply = await client.unary("/test.Service/Wait", message, { timeout: 60_000 });
    const lasted = performance.now() - started;
    assert.ok(lasted >= 478, `${lasted} ms`);
    assert.ok(reply.code !== 0 && reply.code !== 4, `${reply.code} ${reply.details}`);
    await until("signal", () => aborted.length > 0);
  });

  test("without max_connection_age_grace, calls in progress may take as long as they need", async (t) => {
    const waiting: (() => void)[] = [];
    const methods = {
      Wait: unary((bytes) => new Promise((resolve) => waiting.push(() => resolve(bytes)))),
    };
    const { port } = await serving(t, methods, { grpc: { max_connection_age: 100 } });
    const session = connectHttp2(`http://${port.address}`);
    t.after(() => session.destroy());
    const status = call(session, Buffer.from([0, 0, 0, 0, 0]), { ":path": "/test.Service/Wait" });
    await new Promise((resolve) => session.once("goaway", resolve));
    // Another connection that begins now ends: the time has passed once more.
    await ageOf(t, port.address);
    for (const release of waiting) release();
    assert.equal(await status, "0");
  });
}

test("Sluice's transport refuses a reply of more than 8 MiB before its first byte", async (t) => {
  const give = (asked: Uint8Array) => new Uint8Array(Number(Buffer.from(asked)));
  const methods: Record<string, Method> = {
    Now: unary(give),
    Later: unary(async (asked) => give(asked)),
    Only: {
      kind: "stream",
      client: true,
      server: false,
      handle: async (stream) => {
        for await (const asked of stream.messages) await stream.send(give(asked));
      },
    },
    Many: {
      kind: "stream",
      client: false,
      server: true,
      handle: async (stream) => {
        for await (const asked of stream.messages) {
          await stream.send(message);
          await stream.send(give(asked));
        }
      },
    },
  };
  const { meter, handled } = memoryMeter();
  const port = await portsOver("own").open(t, methods, {}, { meter });
  const insecure = ChannelCredentials.createInsecure();
  const client = grpcClient(t, port.address, insecure, { "grpc.max_receive_message_length": -1 });
  const sized = (bytes: number) => Buffer.from(String(bytes));
  const ask = {
    Now: (bytes: number) => client.unary("/test.Service/Now", sized(bytes)),
    Later: (bytes: number) => client.unary("/test.Service/Later", sized(bytes)),
    Only: (bytes: number) => client.clientStream("/test.Service/Only", [sized(bytes)]),
  };
  for (const [kind, give] of Object.entries(ask)) {
    assert.equal((await give(8 * MIB)).message?.length, 8 * MIB, kind);
    const { code, details } = await give(8 * MIB + 1);
    assert.deepEqual([code, details], [8, "the reply is longer than 8 MiB"], kind);
  }
  const seen: Uint8Array[] = [];
  const many = client.serverStream("/test.Service/Many", sized(8 * MIB + 1));
  many.on("data", (each: Uint8Array) => seen.push(each));
  const [error] = await once(many, "error");
  assert.equal((error as ServiceError).details, "the reply is longer than 8 MiB");
  assert.deepEqual(
    seen.map(String),
    ["a message"],
    "the messages before the refused one did not arrive",
  );
  const longest = client.serverStream("/test.Service/Many", sized(8 * MIB));
  const lengths: number[] = [];
  longest.on("data", (each: Uint8Array) => lengths.push(each.length));
  await once(longest, "end");
  assert.deepEqual(lengths, [message.length, 8 * MIB]);
  const [fit, over] = ["OK", "RESOURCE_EXHAUSTED"];
  assert.deepEqual(
    handled.map(({ code }) => code),
    [fit, over, fit, over, fit, over, over, fit],
  );
});
