// Frames are read where they lie: what is whole in a read is handed on in the memory that the read came in, and data
// always is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameReader, type FrameSink } from "#serve/h2/frame-reader.ts";
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
} from "../../kit/h2.ts";
import { memoryServer, turns } from "../../kit/memory-peer.ts";

/** Payloads by what they say, each as [its kind, its text], and the memory each lay in. */
function reading() {
  const heard: (readonly [type: number, text: string])[] = [];
  const lay: Buffer[] = [];
  const hear = (type: number, bytes: Buffer, start: number, end: number) => {
    heard.push([type, bytes.toString("latin1", start, end)]);
    lay.push(bytes);
  };
  const sink: FrameSink = {
    beginData() {},
    data: (bytes, start, end) => hear(DATA, bytes, start, end),
    frame: (type, _flags, _stream, bytes, start, end) => hear(type, bytes, start, end),
    hold: () => true,
    release() {},
  };
  const reader = new FrameReader(sink);
  reader.read(PREFACE);
  return { reader, heard, lay };
}

const text = (what: string) => Buffer.from(what, "latin1");

test("frames that are whole in a read", () => {
  const { reader, heard, lay } = reading();
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
    heard.map(([, what]) => what).filter((what) => /^[a-z]*$/.test(what)),
    ["head", "more", "body", "", "padded", "measured", "unknown"],
  );
});

test("a frame that is alone in a read", () => {
  for (const one of [data(1, text("body")), headers(1, text("head"))]) {
    const { reader, lay } = reading();
    reader.read(one);
    assert.deepEqual(lay.length, 1);
    assert.equal(lay[0], one);
  }
});

test("data in parts, behind a head in parts", () => {
  const { reader, heard, lay } = reading();
  const whole = data(1, text("abcdef"));
  const chunks = [whole.subarray(0, 5), whole.subarray(5, 11), whole.subarray(11)];
  for (const chunk of chunks) reader.read(chunk);
  assert.deepEqual(heard, [
    [DATA, "ab"],
    [DATA, "cdef"],
  ]);
  assert.equal(lay[0], chunks[1]);
  assert.equal(lay[1], chunks[2]);
});

test("only another frame that is spread over reads is copied together", () => {
  const { reader, heard, lay } = reading();
  const whole = headers(1, text("abcdef"));
  const chunks = [whole.subarray(0, 11), whole.subarray(11)];
  for (const chunk of chunks) reader.read(chunk);
  assert.deepEqual(heard, [[HEADERS, "abcdef"]]);
  assert.ok(lay[0] !== chunks[0] && lay[0] !== chunks[1]);
});

test("so the message of a whole call is a view of what the socket read", async (t) => {
  const messages: Uint8Array[] = [];
  const handle = (bytes: Uint8Array) => {
    messages.push(bytes);
    return bytes;
  };
  const { connect, transport } = memoryServer([
    { name: "test.Views", healthNames: [], methods: { Say: { kind: "unary", handle } } },
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
