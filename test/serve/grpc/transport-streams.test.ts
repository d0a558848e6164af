// Streams over both transports.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Metadata } from "@grpc/grpc-js";
import { Fault } from "#base/fault.ts";
import type { Method } from "#base/handler.ts";
import { until } from "../../kit/until.ts";
import { message, overBoth } from "./transport-setup.ts";

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

overBoth(({ serving }) => {
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
});
