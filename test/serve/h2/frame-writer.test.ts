// A header block longer than a frame leaves in frames that follow each other (RFC 9113 §4.3): nobody has to take a
// larger one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameWriter } from "#serve/h2/frame-writer.ts";
import { Chunks, Output } from "#serve/h2/output.ts";
import { Cutter } from "../../kit/fuzz-wire.ts";
import { CONTINUATION, END_HEADERS, END_STREAM, FULL, HEADERS } from "../../kit/h2.ts";
import { PacedSocket } from "../../kit/memory-peer.ts";

/** The frames of a block of so many bytes. */
function written(length: number, last: boolean) {
  const frames: (readonly [type: number, flags: number, length: number])[] = [];
  const parts: Buffer[] = [];
  const cutter = new Cutter((type, flags, stream, payload) => {
    assert.equal(stream, 7);
    frames.push([type, flags, payload.length]);
    parts.push(Buffer.from(payload));
  }, FULL);
  const socket = new PacedSocket((bytes) => cutter.push(bytes));
  const output = new Output(socket, new Chunks(), () => undefined);
  const block = Buffer.from(Uint8Array.from({ length }, (_, at) => at % 251));
  new FrameWriter(output).headers(7, block, last);
  output.flush();
  assert.ok(Buffer.concat(parts).equals(block), "the bytes of the block");
  return frames;
}

test("a block that fits is one frame", () => {
  for (const length of [0, 1, FULL]) {
    assert.deepEqual(written(length, false), [[HEADERS, END_HEADERS, length]]);
    assert.deepEqual(written(length, true), [[HEADERS, END_HEADERS | END_STREAM, length]]);
  }
});

test("a longer one goes on in CONTINUATION frames, the last of which ends it", () => {
  assert.deepEqual(written(FULL + 1, false), [
    [HEADERS, 0, FULL],
    [CONTINUATION, END_HEADERS, 1],
  ]);
  assert.deepEqual(written(5 * FULL, true), [
    [HEADERS, END_STREAM, FULL],
    ...Array.from({ length: 3 }, () => [CONTINUATION, 0, FULL]),
    [CONTINUATION, END_HEADERS, FULL],
  ]);
});
