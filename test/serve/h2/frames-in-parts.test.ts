// Frames that are begun and not finished: what is kept of them counts, over all connections together, and is
// given back.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { FrameReader } from "#serve/h2/frame-reader.ts";
import { MAX_HELD, MAX_HELD_IN_ALL, SMALL_FRAME } from "#serve/h2/limits.ts";
import { peek } from "#serve/listen/tongue.ts";
import {
  data,
  END_STREAM,
  FULL,
  frame,
  GOAWAY,
  grpcFields,
  HEADERS,
  headers,
  message,
  PING,
  PREFACE,
  ping,
} from "../../kit/h2.ts";
import { block } from "../../kit/hpack-raw.ts";
import { type MemoryPeer, memoryServer, turns } from "../../kit/memory-peer.ts";

const CALM = 11;
/** Of a kind that nobody knows, so that it may come at any time. */
const whole = frame(0x42, 0, 0, Buffer.alloc(FULL));
const almost = whole.subarray(0, -1);
const AT_ONCE = MAX_HELD_IN_ALL / FULL;

const service = {
  name: "test.Parts",
  healthNames: [],
  methods: { Say: { kind: "unary", handle: (bytes: Uint8Array) => bytes } },
} as const;

test("frames that are almost whole, on more connections than there is room for", async (t) => {
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
    assert.equal(faults.length, more, "counted once each");
    assert.equal(faults.at(-1), "too_many_bytes");
  }

  const honest = await connect();
  peers.push(honest);
  const head = headers(1, block(grpcFields("/test.Parts/Say")));
  const last = head.length - 5;
  for (let at = 0; at < last; at++) await honest.send(head.subarray(at, at + 1));
  // A call that outlives the read which brought it counts as kept, too.
  await honest.send(head.subarray(last), data(1, message(Buffer.from("honest")), END_STREAM));
  const small = frame(0x42, 0, 0, Buffer.alloc(SMALL_FRAME));
  await honest.send(small.subarray(0, -1));
  await honest.send(small.subarray(-1), ping());
  assert.equal(honest.of(HEADERS, 1).length, 1 + 1, "small frames in parts are served meanwhile");
  assert.equal(honest.of(PING).length, 1);

  const [first, second] = peers;
  await first?.send(whole.subarray(-1), ping());
  assert.equal(first?.of(PING).length, 1);
  second?.socket.destroy();
  assert.equal((await attack()).of(GOAWAY).length, 0, "in the place of one that is whole");
  assert.equal((await attack()).of(GOAWAY).length, 0, "in the place of one that left");
  assert.equal((await attack()).of(GOAWAY).length, 1);
});

test("one connection may send as many frames in parts as it likes after each other", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  for (let sent = 0; sent < (2 * MAX_HELD) / FULL; sent++) {
    for (let at = 0; at < whole.length; at += 5_000)
      peer.socket.push(whole.subarray(at, at + 5_000));
  }
  await peer.send(ping());
  assert.equal(peer.of(PING).length, 1, "the connection lives");
  assert.deepEqual(faults, []);
});

test("a frame in parts keeps about as much memory as has come of it", () => {
  const kept: number[] = [];
  const read = (part: Buffer) => {
    const reader = new FrameReader({
      beginData() {},
      data() {},
      frame: (_type, _flags, _stream, bytes, start, end) => {
        assert.equal(end - start, part.length + 1);
        kept.push(bytes.buffer.byteLength);
      },
      hold: () => true,
      release() {},
    });
    const begun = frame(0x42, 0, 0, part, part.length + 1);
    reader.read(Buffer.concat([PREFACE, begun]));
    reader.read(Buffer.of(0));
  };
  const sizes = [1, 100, 3_000, FULL - 1];
  for (const size of sizes) read(Buffer.alloc(size));
  for (const [at, size] of sizes.entries()) assert.ok((kept[at] ?? 0) <= 2 * size, String(kept));
});

test("so does a connection that has yet to say what it speaks", async () => {
  const socket = new Duplex({ read() {}, write() {} });
  let most = 0;
  const judge = (head: Buffer) => {
    most = Math.max(most, head.buffer.byteLength);
    return head.length === PREFACE.length ? true : undefined;
  };
  const heard = new Promise((resolve) => {
    peek(socket as unknown as Socket, judge, resolve, () => undefined);
  });
  for (const byte of PREFACE) {
    // As a socket gives it: in memory of its own.
    socket.push(Buffer.alloc(1, byte));
    await turns();
  }
  await heard;
  assert.equal(most, PREFACE.length);
});
