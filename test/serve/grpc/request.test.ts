import assert from "node:assert/strict";
import { test } from "node:test";
import type { Method } from "#base/handler.ts";
import { grpcRequestHandler } from "#serve/grpc/request-handler.ts";
import { framed, grpcHead } from "../../kit/clients/recording-stream.ts";
import { fakeClock } from "../../kit/clock.ts";

import { memoryLog } from "../../kit/sluice/log.ts";
import { portSettings } from "../../kit/sluice/port.ts";
import { serveMethods } from "./harness.ts";

const echo: Method = { kind: "unary", handle: (bytes) => bytes };
const typed = (contentType: string) => ({ fields: ["x", "y", "content-type", contentType] });

test("claims requests whose content type is gRPC, on any path, and requests for its own methods", () => {
  const { grpc } = serveMethods({ Say: echo });
  const answers = (path: string, over: Parameters<typeof grpcHead>[2]) =>
    grpc.accepts(grpcHead(path, [], over));
  for (const type of [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc;charset=utf-8",
    "Application/GRPC+json",
  ]) {
    assert.equal(answers("/any/Thing", typed(type)), true, type);
  }
  for (const type of ["application/grpc-web", "application/grpcx", "application/json", ""]) {
    assert.equal(answers("/any/Thing", typed(type)), false, type);
    assert.equal(answers("/test.Service/Say", typed(type)), true, type);
  }
  assert.equal(answers("/any/Thing", { fields: [] }), false);
  assert.equal(answers("/test.Service/Say", { fields: [] }), true);
  assert.equal(answers("/test.Service/Say", { method: "GET" }), false);
});

test("answers a gRPC method called with another content type with 415", () => {
  const { open, codes } = serveMethods({ Say: echo });
  for (const over of [typed("application/json"), typed("application/grpc-web"), { fields: [] }]) {
    const { stream, send } = open(grpcHead("/test.Service/Say", [], over));
    assert.deepEqual(stream.blocks, [[":status", "415"]]);
    send(framed("more"), true);
  }
  assert.deepEqual(codes(), []);
});

test("answers unknown services and methods with UNIMPLEMENTED, without repeating their names", () => {
  const { open, counted } = serveMethods({ Say: echo });
  for (const path of ["/test.Service/Shout", "/secret/Say", "/test.Service/Say/", "/", "*"]) {
    const { stream, exchange } = open(grpcHead(path));
    assert.deepEqual(stream.blocks, [
      [
        ":status",
        "200",
        "content-type",
        "application/grpc",
        "grpc-status",
        "12",
        "grpc-message",
        "unknown service or method",
      ],
    ]);
    exchange.aborted();
    exchange.timedOut();
    exchange.drained();
  }
  assert.deepEqual(counted.grpc, []);
});

test("refuses a request whose header list exceeds the limits", () => {
  const { open, codes } = serveMethods({ Say: echo });
  const { stream } = open(grpcHead("/test.Service/Say", [], { flaw: "too_large" }));
  assert.equal(stream.reply.code, 8);
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED"]);
});

test("parses a cached request head only once", () => {
  const { open, grpc } = serveMethods({ Say: echo });
  const head = grpcHead("/test.Service/Say", ["grpc-timeout", "1S"]);
  assert.equal(grpc.accepts(head), true);
  const { memo } = head;
  assert.notEqual(memo, undefined);
  for (let at = 0; at < 3; at++) {
    const { stream, send } = open(head);
    send(framed("again"), true);
    assert.equal(stream.reply.code, 0);
  }
  assert.equal(head.memo, memo);
});

test("leaves the memo that another protocol stored with a head unchanged", () => {
  const { grpc } = serveMethods({ Say: echo });
  const head = grpcHead("/hello", [], { fields: [], memo: "something" });
  assert.equal(grpc.accepts(head), false);
  assert.equal(head.memo, "something");
});

test("throws for a service without methods", () => {
  const environment = { clock: fakeClock(), log: memoryLog(), meter: undefined };
  const service = { name: "a.Service", methods: {} };
  assert.throws(
    () => grpcRequestHandler([service], portSettings().grpc, environment),
    /has no methods/,
  );
});

test("works without a meter", () => {
  const environment = { clock: fakeClock(), log: memoryLog(), meter: undefined };
  const grpc = grpcRequestHandler(
    [{ name: "a.S", methods: { Say: echo } }],
    portSettings().grpc,
    environment,
  );
  assert.equal(grpc.accepts(grpcHead("/a.S/Say")), true);
});
