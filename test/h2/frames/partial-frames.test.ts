// Incomplete frames: the bytes buffered for them count against the pool of all connections and are released again.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { FrameReader } from "#h2/frames/frame-reader.ts";
import {
  MAX_BUFFERED_PER_CONNECTION,
  MAX_BUFFERED_TOTAL,
  MAX_UNCOUNTED_FRAME,
} from "#h2/limits.ts";
import { peek } from "#serve/listen/protocol.ts";
import {
  data,
  END_STREAM,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  MAX_FRAME_SIZE,
  message,
  PING,
  PREFACE,
  ping,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/clients/memory-peer.ts";

const CALM = 11;
/** An unknown frame type, which is allowed at any time. */
const whole = frame(0x42, 0, 0, Buffer.alloc(MAX_FRAME_SIZE));
const almost = whole.subarray(0, -1);
const AT_ONCE = MAX_BUFFERED_TOTAL / MAX_FRAME_SIZE;

const service = {
  name: "test.Parts",
  methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
} as const;

test("ends connections with almost complete frames when the pool is full", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peers: MemoryPeer[] = [];
  t.after(() => {
    for (const { socket } of peers) socket.destroy();
  });
  const attack = async () => {
    const peer = await connect();
    peers.push(peer);
    await peer.send(almost);
    return peer;
  };
  for (let made = 0; made < AT_ONCE; made++) await attack();
  assert.deepEqual(faults, []);
  for (let more = 1; more <= 3; more++) {
    const peer = await attack();
    assert.equal(peer.of(GOAWAY)[0]?.payload.readUInt32BE(4), CALM);
    assert.equal(faults.length, more, "each is counted once");
    assert.equal(faults.at(-1), "too_many_bytes");
  }

  const honest = await connect();
  peers.push(honest);
  const head = headers(1, block(grpcFields("/test.Parts/Say")));
  const last = head.length - 5;
  for (let at = 0; at < last; at++) await honest.send(head.subarray(at, at + 1));
  // A call that outlives the read that brought it counts against the pool, too.
  await honest.send(head.subarray(last), data(1, message(Buffer.from("honest")), END_STREAM));
  const small = frame(0x42, 0, 0, Buffer.alloc(MAX_UNCOUNTED_FRAME));
  await honest.send(small.subarray(0, -1));
  await honest.send(small.subarray(-1), ping());
  assert.equal(
    honest.of(HEADERS, 1).length,
    1 + 1,
    "small frames in parts are not served meanwhile",
  );
  assert.equal(honest.of(PING).length, 1);

  const [first, second] = peers;
  await first?.send(whole.subarray(-1), ping());
  assert.equal(first?.of(PING).length, 1);
  second?.socket.destroy();
  assert.equal((await attack()).of(GOAWAY).length, 0, "a completed frame did not make space");
  assert.equal((await attack()).of(GOAWAY).length, 0, "a closed connection did not make space");
  assert.equal((await attack()).of(GOAWAY).length, 1);
});

test("one connection may send any number of frames in parts one after another", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  for (let sent = 0; sent < (2 * MAX_BUFFERED_PER_CONNECTION) / MAX_FRAME_SIZE; sent++) {
    for (let at = 0; at < whole.length; at += 5_000)
      peer.socket.push(whole.subarray(at, at + 5_000));
  }
  await peer.send(ping());
  assert.equal(peer.of(PING).length, 1, "the connection has ended");
  assert.deepEqual(faults, []);
});

test("a partial frame holds at most twice the memory of the bytes received", () => {
  const kept: number[] = [];
  const read = (part: Buffer) => {
    const reader = new FrameReader({
      beginData() {},
      data() {},
      frame: (_type, _flags, _stream, bytes, start, end) => {
        assert.equal(end - start, part.length + 1);
        kept.push(bytes.buffer.byteLength);
      },
      reserve: () => true,
      release() {},
    });
    const begun = frame(0x42, 0, 0, part, part.length + 1);
    reader.read(Buffer.concat([PREFACE, begun]));
    reader.read(Buffer.of(0));
  };
  const sizes = [1, 100, 3_000, MAX_FRAME_SIZE - 1];
  for (const size of sizes) read(Buffer.alloc(size));
  for (const [at, size] of sizes.entries()) assert.ok((kept[at] ?? 0) <= 2 * size, String(kept));
});

test("an undetected protocol's first bytes hold no more memory than the preface", async () => {
  const socket = new Duplex({ read() {}, write() {} });
  let most = 0;
  const detect = (head: Buffer) => {
    most = Math.max(most, head.buffer.byteLength);
    return head.length === PREFACE.length ? true : undefined;
  };
  const detected = new Promise((resolve) => {
    peek(socket as unknown as Socket, detect, resolve, () => undefined);
  });
  for (const byte of PREFACE) {
    // Each read in a buffer of its own, as from a socket.
    socket.push(Buffer.alloc(1, byte));
    await turns();
  }
  await detected;
  assert.equal(most, PREFACE.length);
});
