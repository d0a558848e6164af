// A field block longer than a frame is sent as HEADERS and CONTINUATION frames (RFC 9113 §4.3), as a peer need not
// accept frames of more than 16 384 bytes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FrameWriter } from "#h2/frames/frame-writer.ts";
import { ChunkPool, Output } from "#h2/frames/output.ts";
import {
  CONTINUATION,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  MAX_FRAME_SIZE,
} from "../../kit/clients/h2.ts";

import { PacedSocket } from "../../kit/clients/memory-peer.ts";
import { FrameSplitter } from "../../lab/fuzz/engine/connection.ts";

/** The frames of a field block of this length. */
function written(length: number, last: boolean) {
  const frames: (readonly [type: number, flags: number, length: number])[] = [];
  const parts: Buffer[] = [];
  const cutter = new FrameSplitter((type, flags, stream, payload) => {
    assert.equal(stream, 7);
    frames.push([type, flags, payload.length]);
    parts.push(Buffer.from(payload));
  }, MAX_FRAME_SIZE);
  const socket = new PacedSocket((bytes) => cutter.push(bytes));
  const output = new Output(socket, new ChunkPool(), () => undefined);
  const block = Buffer.from(Uint8Array.from({ length }, (_, at) => at % 251));
  new FrameWriter(output).headers(7, block, last);
  output.flush();
  assert.ok(Buffer.concat(parts).equals(block), "the frames carry another block");
  return frames;
}

test("writes a block that fits as one HEADERS frame", () => {
  for (const length of [0, 1, MAX_FRAME_SIZE]) {
    assert.deepEqual(written(length, false), [[HEADERS, END_HEADERS, length]]);
    assert.deepEqual(written(length, true), [[HEADERS, END_HEADERS | END_STREAM, length]]);
  }
});

test("continues a longer block in CONTINUATION frames and sets END_HEADERS on the last", () => {
  assert.deepEqual(written(MAX_FRAME_SIZE + 1, false), [
    [HEADERS, 0, MAX_FRAME_SIZE],
    [CONTINUATION, END_HEADERS, 1],
  ]);
  assert.deepEqual(written(5 * MAX_FRAME_SIZE, true), [
    [HEADERS, END_STREAM, MAX_FRAME_SIZE],
    ...Array.from({ length: 3 }, () => [CONTINUATION, 0, MAX_FRAME_SIZE]),
    [CONTINUATION, END_HEADERS, MAX_FRAME_SIZE],
  ]);
});
