// Header compression: RFC 7541's own examples, our ends against each other and against Node's, and rubbish.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FieldList } from "#serve/h2/fields.ts";
import { CompressionFault, Decoder } from "#serve/h2/hpack/decoder.ts";
import { Encoder, FixedBlock } from "#serve/h2/hpack/encoder.ts";

/** Decodes one block written in hex and checks what comes out. */
function decode(decoder: Decoder, bytes: Uint8Array): readonly string[] {
  const list = new FieldList(1 << 20, 10_000);
  const buffer = Buffer.from(bytes);
  decoder.decode(buffer, 0, buffer.length, list);
  return list.flat.slice();
}
const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ""), "hex");

test("smoke", () => {
  const decoder = new Decoder(4096);
  assert.deepEqual(decode(decoder, hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff")), [
    ":method",
    "GET",
    ":scheme",
    "http",
    ":path",
    "/",
    ":authority",
    "www.example.com",
  ]);
  assert.throws(() => decode(decoder, hex("80")), CompressionFault);
  const encoder = new Encoder();
  const other = new Decoder(4096);
  const block = new FixedBlock([":status", "200", "content-type", "application/grpc", "x-a", "b"]);
  for (let i = 0; i < 3; i++) assert.deepEqual(decode(other, encoder.fixed(block)), block.fields);
  assert.equal(encoder.fixed(block), encoder.fixed(block));
});
