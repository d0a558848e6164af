// What was read from connections and waits for its turn lies in memory that is used again, so that a process which does
// not get enough processor time leaves no buffers behind.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { GrpcService } from "#base/handler.ts";
import { KEPT_POOL_SIZE, MAX_POOL_SIZE, ReadBufferPool } from "#h2/read-buffers.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { HttpServer } from "#serve/http/http-server.ts";
import { PacedParser } from "#serve/http/http1/paced-parser.ts";
import { withoutGarbage } from "../kit/attack/memory.ts";
import { call } from "../kit/clients/h2.ts";
import { memoryServer, PacedSocket } from "../kit/clients/memory-peer.ts";
import { fakeClock } from "../kit/clock.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { memoryMeter, portSettings } from "../kit/sluice/port.ts";

const READ = 60_000;
const ROUNDS = 100;

test("memory is used again once what lay in it is released, in whatever order", () => {
  const memory = new ReadBufferPool();
  for (let round = 0; round < ROUNDS; round++) {
    const texts = Array.from({ length: 9 }, (_, at) => `${round}:${at}`.padEnd(READ, "."));
    const waiting = texts.map((text) => memory.store(Buffer.from(text)));
    const copies = waiting.map((each) => each.copy(1));
    for (const each of round % 2 === 0 ? waiting : waiting.toReversed()) each.release();
    memory.store(Buffer.alloc(READ, "x")).release();
    assert.deepEqual(
      copies.map(String),
      texts.map((text) => text.slice(1)),
    );
  }
  assert.ok(memory.size <= 16 * READ, `${memory.size} bytes`);
});

test("memory is bounded, what has no room in it waits all the same, and most is given back when nothing waits", () => {
  const memory = new ReadBufferPool();
  const count = (2 * MAX_POOL_SIZE) / READ;
  const all = Array.from({ length: count }, (_, at) => memory.store(Buffer.alloc(READ, at)));
  assert.equal(memory.size, MAX_POOL_SIZE);
  for (const [at, waiting] of all.entries()) {
    assert.ok(waiting.copy(READ - 10).equals(Buffer.alloc(10, at)));
    waiting.release();
  }
  assert.equal(memory.size, KEPT_POOL_SIZE);
  for (let round = 0; round < ROUNDS; round++) memory.store(Buffer.alloc(READ)).release();
  assert.equal(memory.size, KEPT_POOL_SIZE);
});

/** The buffer of one read, to which nothing else refers. */
function ofOneRead(text: Buffer): Buffer {
  const bytes = Buffer.allocUnsafeSlow(text.length);
  text.copy(bytes);
  return bytes;
}

/** Lets the connection read these bytes. Returns its buffer, without keeping it. */
function read(socket: PacedSocket, text: Buffer): WeakRef<ArrayBufferLike> {
  const bytes = ofOneRead(text);
  socket.push(bytes);
  return new WeakRef(bytes.buffer);
}

/** A connection, and what it sends to be handled once. */
interface Reader {
  readonly scheduler: ReadScheduler;
  readonly socket: PacedSocket;
  readonly request: Buffer;
  readonly handled: () => number;
}

const READERS: Readonly<Record<string, () => Promise<Reader>>> = {
  async "HTTP/2"() {
    let handled = 0;
    const handle = (message: Uint8Array) => {
      handled++;
      return message;
    };
    const service: GrpcService = {
      name: "test.Waits",
      methods: { One: { kind: "unary", handle } },
    };
    const { scheduler, connect } = memoryServer([service]);
    const { socket } = await connect();
    const request = call(1, "/test.Waits/One", Buffer.from("waits"));
    return { scheduler, socket, request, handled: () => handled };
  },
  async "the fast path of HTTP/1.1"() {
    let handled = 0;
    const handle = () => {
      handled++;
      return { status: 200, headers: {}, body: "" };
    };
    const clock = fakeClock();
    const scheduler = new ReadScheduler(clock);
    const transport = new HttpServer({
      scheduler,
      routes: [{ method: "POST", path: "/check", about: "", handle }],
      settings: portSettings({}).http,
      clock,
      log: memoryLog(),
      meter: memoryMeter().meter,
    });
    transport.cut();
    const socket = new PacedSocket(() => undefined);
    // The socket has every member that the fast path uses.
    transport.accept(Object.assign(socket, { setTimeout: () => socket }) as unknown as Socket);
    const head = "POST /check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    const request = Buffer.from(`${head}content-length: 2\r\n\r\n{}`);
    return { scheduler, socket, request, handled: () => handled };
  },
  async "Node's parser"() {
    let handled = 0;
    const scheduler = new ReadScheduler(fakeClock());
    const socket = new PacedSocket(() => undefined);
    const parse = () => {
      handled++;
    };
    new PacedParser(socket as unknown as Socket, scheduler, { parse, end: () => undefined });
    const request = Buffer.from("GET /check HTTP/1.1\r\nhost: a\r\n\r\n");
    return { scheduler, socket, request, handled: () => handled };
  },
};

for (const [name, open] of Object.entries(READERS)) {
  test(`what waits for its turn does not keep the buffer in which it was read: ${name}`, async () => {
    const { scheduler, socket, request, handled } = await open();
    scheduler.connectionAccepted();
    await turn();
    // Such a turn does nothing else.
    scheduler.connectionAccepted();
    const buffer = read(socket, request);
    await turn();
    scheduler.connectionAccepted();
    assert.equal(handled(), 0, "it waits");
    withoutGarbage();
    assert.equal(buffer.deref(), undefined, "the buffer is still used");
    while (!scheduler.idle) await turn();
    assert.equal(handled(), 1);
    assert.ok(scheduler.buffers.size > 0);
    socket.destroy();
  });

  test(`a connection that ends while it waits gives its memory back: ${name}`, async () => {
    const { scheduler, socket, request, handled } = await open();
    scheduler.connectionAccepted();
    await turn();
    scheduler.connectionAccepted();
    read(socket, request);
    await turn();
    scheduler.connectionAccepted();
    socket.destroy();
    while (!scheduler.idle) await turn();
    assert.equal(handled(), 0);
    // Memory that is still used would keep all of it.
    const memory = scheduler.buffers;
    const all = Array.from({ length: 100 }, () => memory.store(Buffer.alloc(READ)));
    for (const waiting of all) waiting.release();
    assert.equal(memory.size, KEPT_POOL_SIZE);
  });
}
