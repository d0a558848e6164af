// Padding counts against flow control, but no handler reads it, so the server must return its credit by itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { STREAM_RECEIVE_WINDOW } from "#h2/limits.ts";
import {
  DATA,
  END_STREAM,
  frame,
  grpcFields,
  HEADERS,
  headers,
  message,
  PADDED,
  padded,
  RST_STREAM,
  WINDOW_UPDATE,
} from "../../kit/clients/h2.ts";
import { block } from "../../kit/clients/hpack.ts";
import { memoryServer } from "../../kit/clients/memory-peer.ts";

const PADDING = 255;
const FRAMES = 4_000;
const PER_SEND = 100;

const service = {
  name: "test.Padding",
  methods: {
    Size: {
      kind: "unary",
      handle: (bytes: Uint8Array) => Buffer.from(String(bytes.length)),
    },
  },
} as const;

test("returns the flow-control credit of padding", async (t) => {
  const { connect, faults, transport } = memoryServer([service]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  await peer.send(headers(1, block(grpcFields("/test.Padding/Size"))));
  const body = message(Buffer.alloc(FRAMES - 5));
  const room = (stream: number) =>
    peer.of(WINDOW_UPDATE, stream).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
  let sent = 0;
  for (let at = 0; at < FRAMES; at += PER_SEND) {
    const parts = Array.from({ length: PER_SEND }, (_, part) => {
      const byte = body.subarray(at + part, at + part + 1);
      const last = at + part === FRAMES - 1 ? END_STREAM : 0;
      return frame(DATA, PADDED | last, 1, padded(byte, PADDING));
    });
    sent += PER_SEND * (1 + 1 + PADDING);
    assert.ok(sent <= STREAM_RECEIVE_WINDOW + room(1), `no window left after ${at} frames`);
    await peer.send(...parts);
  }
  assert.ok(sent > 3 * STREAM_RECEIVE_WINDOW);
  assert.equal(peer.of(RST_STREAM, 1).length, 0);
  assert.equal(peer.of(HEADERS, 1).length, 2, "the reply has no head or no trailers");
  assert.ok(
    peer
      .of(DATA, 1)[0]
      ?.payload.subarray(5)
      .equals(Buffer.from(String(FRAMES - 5))),
  );
  assert.deepEqual(faults, []);
});
