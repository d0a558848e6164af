// The frame reader does not copy: a frame that is complete in one read, and DATA always, is passed on as a view of
// the read buffer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameReader, type FrameSink } from "#h2/frames/frame-reader.ts";
import {
  CONTINUATION,
  call,
  DATA,
  data,
  frame,
  HEADERS,
  headers,
  PADDED,
  PREFACE,
  padded,
  ping,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { memoryServer, turns } from "../../kit/clients/memory-peer.ts";

/** A reader that records each payload as [type, text], and the buffer that it lay in. */
function reading() {
  const received: (readonly [type: number, text: string])[] = [];
  const lay: Buffer[] = [];
  const hear = (type: number, bytes: Buffer, start: number, end: number) => {
    received.push([type, bytes.toString("latin1", start, end)]);
    lay.push(bytes);
  };
  const sink: FrameSink = {
    beginData() {},
    data: (bytes, start, end) => hear(DATA, bytes, start, end),
    frame: (type, _flags, _stream, bytes, start, end) => hear(type, bytes, start, end),
    reserve: () => true,
    release() {},
  };
  const reader = new FrameReader(sink);
  reader.read(PREFACE);
  return { reader, received, lay };
}

const text = (what: string) => Buffer.from(what, "latin1");

test("passes on frames that are complete in a read without copying", () => {
  const { reader, received, lay } = reading();
  const frames = [
    settings([3, 1]),
    headers(1, text("head"), 0),
    frame(CONTINUATION, 4, 1, text("more")),
    data(1, text("body")),
    data(1),
    data(1, padded(text("padded"), 20), PADDED),
    windowUpdate(0, 1),
    ping("measured"),
    frame(0x42, 0, 0, text("unknown")),
  ];
  const chunk = Buffer.concat(frames);
  reader.read(chunk);
  assert.equal(lay.length, frames.length);
  for (const bytes of lay) assert.equal(bytes, chunk);
  assert.deepEqual(
    received.map(([, what]) => what).filter((what) => /^[a-z]*$/.test(what)),
    ["head", "more", "body", "", "padded", "measured", "unknown"],
  );
});

test("passes on a frame that is alone in a read without copying", () => {
  for (const one of [data(1, text("body")), headers(1, text("head"))]) {
    const { reader, lay } = reading();
    reader.read(one);
    assert.deepEqual(lay.length, 1);
    assert.equal(lay[0], one);
  }
});

test("passes on DATA in parts, after HEADERS in parts", () => {
  const { reader, received, lay } = reading();
  const whole = data(1, text("abcdef"));
  const chunks = [whole.subarray(0, 5), whole.subarray(5, 11), whole.subarray(11)];
  for (const chunk of chunks) reader.read(chunk);
  assert.deepEqual(received, [
    [DATA, "ab"],
    [DATA, "cdef"],
  ]);
  assert.equal(lay[0], chunks[1]);
  assert.equal(lay[1], chunks[2]);
});

test("copies only frames other than DATA that span several reads", () => {
  const { reader, received, lay } = reading();
  const whole = headers(1, text("abcdef"));
  const chunks = [whole.subarray(0, 11), whole.subarray(11)];
  for (const chunk of chunks) reader.read(chunk);
  assert.deepEqual(received, [[HEADERS, "abcdef"]]);
  assert.ok(lay[0] !== chunks[0] && lay[0] !== chunks[1]);
});

test("the message of a call that arrives in one read is a view of the socket's buffer", async (t) => {
  const messages: Uint8Array[] = [];
  const handle = (bytes: Uint8Array) => {
    messages.push(bytes);
    return bytes;
  };
  const { connect, transport } = memoryServer([
    { name: "test.Views", methods: { Say: { kind: "unary", handle } } },
  ]);
  t.after(() => transport.cut());
  const peer = await connect();
  t.after(() => peer.socket.destroy());
  const said = text("said");
  const read = call(1, "/test.Views/Say", said);
  peer.socket.push(read);
  await turns();
  const [message] = messages;
  assert.ok(message?.buffer === read.buffer);
  assert.equal(message.byteOffset, read.byteOffset + read.length - said.length);
});
