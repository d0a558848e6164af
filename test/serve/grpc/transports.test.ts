// Calls over both transports: messages, metadata, faults, deadlines, limits of size and compression.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { ChannelCredentials, type ServiceError } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import type { Call, Method } from "#base/handler.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { dial, memoryMeter, readAll } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import {
  framed,
  HOUR_MS,
  MIB,
  message,
  overBoth,
  portsOver,
  raw,
  unary,
} from "./transport-setup.ts";

overBoth(({ open, serving }) => {
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
});

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
