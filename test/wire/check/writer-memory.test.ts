// Memory that reply writers keep after one large message.

import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonWriter } from "#wire/json/writer.ts";
import { Base64Writer, MAX_RETAINED_BYTES } from "#wire/protobuf/base64.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { withoutGarbage } from "../../kit/attack/memory.ts";

const LARGE = 4 * 1024 * 1024;

function message(size: number): (proto: ProtoWriter, json: JsonWriter, text: Base64Writer) => void {
  const value = "x".repeat(size);
  return (proto, json, text) => {
    proto.reset();
    proto.text(0x0a, value);
    const into = Buffer.alloc(4 + 2 * size + 64);
    proto.base64(text, into, 0);
    json.reset();
    json.literal(value);
    json.take(false);
  };
}

test("the buffer of a large message is released, and the next message is written correctly", () => {
  const writers = Array.from(
    { length: 3 },
    () => [new ProtoWriter(), new JsonWriter(), new Base64Writer()] as const,
  );
  const small = message(10);
  for (const each of writers) small(...each);
  const before = withoutGarbage().arrayBuffers;
  const large = message(LARGE);
  for (const each of writers) {
    large(...each);
    small(...each);
  }
  const kept = withoutGarbage().arrayBuffers - before;
  assert.ok(kept < writers.length * MAX_RETAINED_BYTES, `${kept} bytes are kept`);
  for (const [proto, json, text] of writers) {
    proto.reset();
    proto.text(0x0a, "abc");
    const into = Buffer.alloc(64);
    const end = proto.base64(text, into, 0);
    const wanted = Buffer.from("\x0a\x03abc").toString("base64");
    assert.equal(into.toString("latin1", 0, wanted.length), wanted);
    assert.ok(end === undefined || end === wanted.length);
    json.reset();
    json.literal("abc");
    assert.equal(String(json.take(false)), "abc");
  }
});
