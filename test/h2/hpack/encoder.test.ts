// Encoding field blocks, and decoding what was encoded.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FixedBlock } from "#h2/exchange.ts";
import { Decoder } from "#h2/hpack/decoder.ts";
import { Encoder } from "#h2/hpack/encoder.ts";
import { decode, table } from "./setup.ts";

const NAME = fc.oneof(
  fc.constantFrom(":status", ":path", "content-type", "set-cookie", "authorization", "date", "te"),
  fc.stringMatching(/^x-[a-z0-9-]{1,12}$/),
);

const VALUE = fc.oneof(
  fc.constantFrom("", "200", "431", "/", "application/grpc", "trailers", "v".repeat(200)),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);

const FIELDS = fc.array(fc.tuple(NAME, VALUE), { maxLength: 8 }).map((pairs) => pairs.flat());

describe("encoder", () => {
  const head = new FixedBlock([":status", "200", "content-type", "application/grpc", "x-a", "b"]);
  const tail = new FixedBlock(["grpc-status", "0"]);

  test("writes a fixed block as indexes from its second use on, and reuses its bytes", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields);
    const second = encoder.fixed(head);
    assert.equal(second.length, 3);
    assert.equal(encoder.fixed(head), second);
    assert.deepEqual(decode(decoder, second), head.fields);
    assert.deepEqual(decode(decoder, encoder.fixed(tail)), tail.fields);
    const shifted = encoder.fixed(head);
    assert.notDeepEqual(shifted, second);
    assert.deepEqual(decode(decoder, shifted), head.fields);
    assert.equal(encoder.fixed(head), shifted);
  });

  test("shares table entries between equal blocks", () => {
    const encoder = new Encoder();
    encoder.fixed(head);
    assert.equal(encoder.fixed(new FixedBlock(head.fields)).length, 3);
  });

  test("writes more fixed blocks than it keeps and than the table can hold", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    const blocks = Array.from(
      { length: 200 },
      (_, i) => new FixedBlock([":status", "200", `x-${i}`, "v".repeat(50)]),
    );
    for (let round = 0; round < 3; round++) {
      for (const block of blocks)
        assert.deepEqual(decode(decoder, encoder.fixed(block)), block.fields);
    }
    assert.deepEqual(table(decoder).slice(-2), blocks[0]?.fields.slice(2), "an entry was evicted");
  });

  test("writes the bytes of a new name once, and a repeated value as one byte", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    const into = new Uint8Array(200);
    const write = (name: string, value: string) => {
      const end = encoder.field(into, 7, name, value);
      assert.deepEqual(decode(decoder, into.subarray(7, end)), [name, value]);
      return end - 7;
    };
    assert.equal(write("grpc-message", "first"), 1 + 1 + 12 + 1 + 5);
    assert.equal(write("grpc-message", "other"), 2 + 1 + 5);
    assert.equal(write("grpc-message", "first"), 1);
    assert.equal(write("date", "today"), 2 + 1 + 5);
    assert.equal(write("date", "today"), 2 + 1 + 5);
    assert.equal(write(":status", "404"), 1);
    assert.equal(write(":status", "418"), 1 + 1 + 3);
    for (let i = 0; i < 100; i++) write(`x-${i}`, "value");
    assert.equal(table(decoder).length, 2 * 16, "the number of names in the table is limited");
  });

  test("never indexes secrets", () => {
    for (const name of ["set-cookie", "cookie", "authorization", "proxy-authorization"]) {
      const encoder = new Encoder();
      const decoder = new Decoder(4096);
      for (const bytes of [
        encoder.block([name, "secret"]),
        encoder.fixed(new FixedBlock([name, "secret"])),
        encoder.block([name, "secret"]),
      ]) {
        assert.equal((bytes[0] ?? 0) & 0xf0, 0x10);
        assert.deepEqual(decode(decoder, bytes), [name, "secret"]);
      }
      assert.deepEqual(table(decoder), []);
    }
  });

  test("announces a smaller table once and starts with an empty one", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.fixed(head));
    decode(decoder, encoder.fixed(head));
    encoder.limitTable(90);
    const announced = encoder.fixed(head);
    assert.equal(announced[0], 0x20, "the first update empties the table");
    assert.deepEqual([...announced.subarray(1, 3)], [0x3f, 90 - 31]);
    assert.deepEqual(decode(decoder, announced), head.fields);
    const next = encoder.fixed(head);
    assert.notEqual(next, announced);
    assert.deepEqual(decode(decoder, next), head.fields);
    assert.equal(encoder.fixed(head), next);
    const size = table(decoder).reduce((sum, { length }) => sum + length + 16, 0);
    assert.ok(size > 0 && size <= 90);
  });

  test("announces a smaller table that still holds all entries once, and keeps them", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.fixed(head));
    const before = encoder.fixed(head);
    encoder.limitTable(3000);
    const announced = encoder.fixed(head);
    assert.equal(announced.length, before.length + 3);
    assert.deepEqual(decode(decoder, announced), head.fields);
    assert.deepEqual(encoder.fixed(head), before);
  });

  test("fills the table to its last byte and no further", () => {
    for (let size = 30; size < 130; size++) {
      const encoder = new Encoder();
      const decoder = new Decoder(4096);
      encoder.limitTable(size);
      for (let i = 0; i < 3; i++) {
        assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields, `${size}`);
      }
      if (size === 96) assert.equal(encoder.fixed(head).length, 3);
    }
  });

  test("announces the smallest and the last of several sizes between two blocks", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    decode(decoder, encoder.block([":status", "200"]));
    encoder.limitTable(200);
    encoder.limitTable(50);
    encoder.limitTable(1 << 30);
    const block = encoder.block([":status", "200"]);
    assert.deepEqual([...block], [0x3f, 50 - 31, 0x3f, 0xe1, 0x1f, 0x88]);
    decode(decoder, block);
    assert.deepEqual([...encoder.block([":status", "200"])], [0x88]);
  });

  test("does not announce the present size or one larger than it uses", () => {
    const encoder = new Encoder();
    encoder.limitTable(4096);
    encoder.limitTable(65_536);
    assert.deepEqual([...encoder.block([":status", "200"])], [0x88]);
  });

  test("writes only literals without a table", () => {
    const encoder = new Encoder();
    const decoder = new Decoder(4096);
    encoder.limitTable(0);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(decode(decoder, encoder.fixed(head)), head.fields);
      assert.deepEqual(decode(decoder, encoder.block(["x-y", "z"])), ["x-y", "z"]);
    }
    assert.deepEqual(table(decoder), []);
  });

  test("decodes whatever was encoded, in any order", () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant("fixed" as const), nth: fc.nat(9), more: FIELDS }),
      fc.record({ kind: fc.constant("block" as const), fields: FIELDS }),
      fc.record({ kind: fc.constant("limit" as const), size: fc.oneof(fc.nat(300), fc.nat(9000)) }),
    );
    fc.assert(
      fc.property(
        fc.array(FIELDS, { minLength: 10, maxLength: 10 }),
        fc.array(action, { maxLength: 40 }),
        (constant, actions) => {
          const blocks = constant.map((list) => new FixedBlock(list));
          const encoder = new Encoder();
          const decoder = new Decoder(4096);
          for (const each of actions) {
            if (each.kind === "limit") {
              encoder.limitTable(each.size);
              continue;
            }
            if (each.kind === "block") {
              assert.deepEqual(decode(decoder, encoder.block(each.fields)), each.fields);
              continue;
            }
            const block = blocks[each.nth];
            assert.ok(block);
            const bytes = encoder.fixed(block);
            const into = new Uint8Array(10_000);
            into.set(bytes);
            let end = bytes.length;
            for (let i = 0; i < each.more.length; i += 2) {
              const [name = "", value = ""] = each.more.slice(i);
              const room = encoder.room([name, value]);
              const behind = encoder.field(into, end, name, value);
              assert.ok(behind - end <= room);
              end = behind;
            }
            assert.deepEqual(decode(decoder, into.subarray(0, end)), [
              ...block.fields,
              ...each.more,
            ]);
          }
        },
      ),
      { numRuns: 150 },
    );
  });
});
