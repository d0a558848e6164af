import assert from "node:assert/strict";
import { test } from "node:test";
import { grpcAnswerer } from "#serve/grpc/answerer.ts";
import type { Method } from "#serve/handler.ts";
import { fakeClock } from "../../kit/clock.ts";
import { framed, grpcHead } from "../../kit/h2-stream.ts";
import { memoryLog } from "../../kit/port.ts";
import { serving } from "./serving.ts";

const echo: Method = { kind: "unary", handle: (bytes) => bytes };
const typed = (contentType: string) => ({ fields: ["x", "y", "content-type", contentType] });

test("what is gRPC's to answer", () => {
  const { grpc } = serving({ Say: echo });
  const answers = (path: string, over: Parameters<typeof grpcHead>[2]) =>
    grpc.answers(grpcHead(path, [], over));
  for (const type of [
    ...["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"],
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

test("a method asked with another content type is 415", () => {
  const { open, codes } = serving({ Say: echo });
  for (const over of [typed("application/json"), typed("application/grpc-web"), { fields: [] }]) {
    const { stream, send } = open(grpcHead("/test.Service/Say", [], over));
    assert.deepEqual(stream.blocks, [[":status", "415"]]);
    send(framed("more"), true);
  }
  assert.deepEqual(codes(), []);
});

test("unknown services and methods are UNIMPLEMENTED, and not repeated", () => {
  const { open, counted } = serving({ Say: echo });
  for (const path of ["/test.Service/Shout", "/secret/Say", "/test.Service/Say/", "/", "*"]) {
    const { stream, exchange } = open(grpcHead(path));
    assert.deepEqual(stream.blocks, [
      [
        ...[":status", "200", "content-type", "application/grpc"],
        ...["grpc-status", "12", "grpc-message", "unknown service or method"],
      ],
    ]);
    exchange.gone();
    exchange.slow();
    exchange.drained();
  }
  assert.deepEqual(counted.grpc, []);
});

test("a head beyond the bounds is refused", () => {
  const { open, codes } = serving({ Say: echo });
  const { stream } = open(grpcHead("/test.Service/Say", [], { overflow: true }));
  assert.equal(stream.seen.code, 8);
  assert.deepEqual(codes(), ["RESOURCE_EXHAUSTED"]);
});

test("what a head says is worked out once", () => {
  const { open, grpc } = serving({ Say: echo });
  const head = grpcHead("/test.Service/Say", ["grpc-timeout", "1S"]);
  assert.equal(grpc.answers(head), true);
  const { memo } = head;
  assert.notEqual(memo, undefined);
  for (let at = 0; at < 3; at++) {
    const { stream, send } = open(head);
    send(framed("again"), true);
    assert.equal(stream.seen.code, 0);
  }
  assert.equal(head.memo, memo);
});

test("what another tongue remembers about a head is left alone", () => {
  const { grpc } = serving({ Say: echo });
  const head = grpcHead("/hello", [], { fields: [], memo: "something" });
  assert.equal(grpc.answers(head), false);
  assert.equal(head.memo, "something");
});

test("a service without methods is a mistake", () => {
  const around = { clock: fakeClock(), log: memoryLog(), meter: undefined };
  const service = { name: "a.Service", healthNames: [], methods: {} };
  assert.throws(() => grpcAnswerer([service], around), /has no methods/);
});

test("it works without a meter", () => {
  const around = { clock: fakeClock(), log: memoryLog(), meter: undefined };
  const grpc = grpcAnswerer([{ name: "a.S", healthNames: [], methods: { Say: echo } }], around);
  assert.equal(grpc.answers(grpcHead("/a.S/Say")), true);
});
