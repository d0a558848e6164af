// Unary calls and their handlers: statuses, metadata of requests and replies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { framed } from "../../kit/clients/recording-stream.ts";
import { serveMethods, turns } from "./harness.ts";
import { assertReleased, message, unary, waiting } from "./unary-setup.ts";

test("waits for an asynchronous handler and counts it as work", async () => {
  const { method, first } = waiting();
  const { call, clock, codes } = serveMethods({ Wait: method });
  const each = call("Wait");
  each.send(framed(message), true);
  assert.deepEqual([each.stream.working, each.stream.blocks.length, clock.alarms], [true, 0, 0]);
  first().resolve(Buffer.from("late"));
  await turns();
  assert.equal(String(each.stream.reply.messages), "late");
  assert.deepEqual(codes(), ["OK"]);
  assertReleased(each, clock);
});

test("turns what a handler throws or rejects with into the status", async () => {
  const { call, codes, log, clock } = serveMethods({
    Now: unary((_, call) => {
      call.reply("x-said", "no");
      call.trailer("grpc-status-details-bin", Buffer.from("why").toString("base64"));
      throw new Fault("PERMISSION_DENIED", "no entry ~ \ud800 ü % \n");
    }),
    Later: unary(() => Promise.reject(new Fault("ABORTED", ""))),
    Broken: unary(() => {
      throw new Error("the secret");
    }),
  });
  const now = call("Now");
  now.send(framed(message), true);
  assert.deepEqual(now.stream.blocks, [
    [
      ":status",
      "200",
      "content-type",
      "application/grpc",
      "x-said",
      "no",
      "grpc-status",
      "7",
      "grpc-message",
      "no entry ~ %EF%BF%BD %C3%BC %25 %0A",
      "grpc-status-details-bin",
      "d2h5",
    ],
  ]);
  assertReleased(now, clock);
  const later = call("Later");
  later.send(framed(message), true);
  await turns();
  assert.deepEqual(later.stream.blocks, [
    [":status", "200", "content-type", "application/grpc", "grpc-status", "10"],
  ]);
  assertReleased(later, clock);
  const broken = call("Broken");
  broken.send(framed(message), true);
  assert.deepEqual([broken.stream.reply.code, broken.stream.reply.message], [13, "internal error"]);
  assert.deepEqual(codes(), ["PERMISSION_DENIED", "ABORTED", "INTERNAL"]);
  assert.deepEqual(
    log.lines.map(({ fields }) => [fields?.["method"], String(fields?.["error"])]),
    [["/test.Service/Broken", "Error: the secret"]],
  );
});

test("sends reply headers and trailers, binary ones included", () => {
  const { call } = serveMethods({
    Say: unary((bytes, call) => {
      call.reply("x-a", "1");
      call.reply("x-b-bin", "YQ");
      call.reply("x-a", "2");
      return bytes;
    }),
    Trail: unary((bytes, call) => {
      call.reply("x-a", "1");
      call.trailer("x-t", "1");
      call.trailer("x-t-bin", "AP8=");
      call.trailer("x-t", " spaced ");
      return bytes;
    }),
  });
  const say = call("Say");
  say.send(framed(message), true);
  const { head } = say.stream.reply;
  assert.deepEqual([head["x-a"], head["x-b-bin"]], ["2", "YQ=="]);
  const trail = call("Trail");
  trail.send(framed(message), true);
  const { reply } = trail.stream;
  assert.deepEqual(reply.trailers, { "grpc-status": "0", "x-t": "spaced", "x-t-bin": "AP8=" });
  assert.deepEqual(reply.messages, [message]);
  assert.equal(reply.head["x-a"], "1");
});

for (const [name, value] of [
  ["x-a", "line\r\nbreak"],
  ["x-a", "nul\0"],
  ["x-a", "ü"],
  ["X-A", "upper"],
  ["", "empty"],
  [":status", "500"],
  ["x a", "space"],
  ["x-é", "letter"],
  ["grpc-status", "0"],
  ["content-type", "text/plain"],
  ["transfer-encoding", "chunked"],
  ["x-a-bin", "no base64!"],
  ["x-a-bin", "YQ=\r\n"],
  ["x-a-bin", "Y"],
] as const) {
  test(`rejects invalid reply metadata: ${JSON.stringify([name, value])}`, () => {
    for (const set of ["reply", "trailer"] as const) {
      const { call, log } = serveMethods({
        Say: unary((bytes, call) => {
          call[set](name, value);
          return bytes;
        }),
      });
      const { stream, send } = call("Say");
      send(framed(message), true);
      assert.deepEqual([stream.reply.code, stream.reply.message], [13, "internal error"]);
      assert.equal(log.lines.length, 1);
    }
  });
}

test("returns the first value of request metadata, and binary values in padded base64", () => {
  const fields = [
    "x-a",
    "1, one",
    "x-a",
    "2",
    "x-b-bin",
    "YQ",
    "x-c-bin",
    "YWI,Yg==",
    "x-d-bin",
    "",
  ];
  const seen: (string | undefined)[] = [];
  const { call } = serveMethods({
    Ask: unary((bytes, call) => {
      for (const name of ["x-a", "x-b-bin", "x-c-bin", "x-d-bin", "x-e", "x-e-bin", "toString"]) {
        seen.push(call.header(name));
      }
      seen.push(call.method, call.peer);
      return bytes;
    }),
  });
  call("Ask", fields).send(framed(message), true);
  assert.deepEqual(seen, [
    "1, one",
    "YQ==",
    "YWI=",
    "",
    undefined,
    undefined,
    undefined,
    "/test.Service/Ask",
    "10.1.2.3",
  ]);
});
